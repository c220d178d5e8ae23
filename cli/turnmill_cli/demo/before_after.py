"""One compaction, as a person can look at it in a terminal: the context before and after."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from turnmill.contract.context import JsonMessage
from turnmill_cli.output import clean, number_column, plain_table, stdout, word_column
from turnmill_cli.replay.concurrent_agents import AgentSession
from turnmill_cli.replay.promises import CheckedRead
from turnmill_worker.tokens import count_message, counter_for

__all__ = ["most_telling", "show_compaction"]

SUMMARY_OPENS = "[Summary of the conversation"
MOST_CHARACTERS = 100
MOST_AT_EACH_END = 5
MOST_SUMMARY_LINES = 14

Row = tuple[str, int, str]
"""A message's role, tokens and first characters."""


def most_telling(sessions: Sequence[AgentSession]) -> AgentSession | None:
    """The session whose last compaction removed most, of those where it wrote a new summary."""
    compacted = [each for each in sessions if each.compacted]
    return max(compacted, key=lambda each: (_has_new_summary(each), _removed(each)), default=None)


def show_compaction(session: AgentSession | None) -> None:
    """Print the session's last compaction; nothing if there was none."""
    if session is None or session.compacted is None:
        return
    before, after = session.compacted
    name = session.agent.name
    for checked, when in ((before, "before"), (after, "after")):
        version = checked.context.version
        title = f"{name} {when} a compaction: version {version}, {checked.tokens:,} tokens"
        stdout().print(_messages(checked, title))
    lines = _summary(after).splitlines()
    if lines:
        stdout().print("The summary begins:", style="bold")
        shown = "\n".join(line[: stdout().width] for line in lines[:MOST_SUMMARY_LINES])
        stdout().print(clean(shown), markup=False, style="dim")


def _has_new_summary(session: AgentSession) -> bool:
    before, after = map(_summary, session.compacted or ())
    return before != after != ""


def _removed(session: AgentSession) -> int:
    return session.compacted[0].tokens - session.compacted[1].tokens if session.compacted else 0


def _summary(checked: CheckedRead) -> str:
    for message in checked.context.messages:
        content = message.get("content")
        if isinstance(content, str) and content.startswith(SUMMARY_OPENS):
            return content
    return ""


def _messages(checked: CheckedRead, title: str) -> Table:
    counter = counter_for()
    rows = [(m["role"], count_message(counter, m), _first(m)) for m in checked.context.messages]
    begins = Column("begins", no_wrap=True, ratio=1)  # it gives way in a narrow terminal
    table = plain_table(word_column("role"), number_column("tokens"), begins)
    table.title, table.title_justify, table.expand = title, "left", True
    for role, tokens, text in _shortened(rows):
        table.add_row(role, f"{tokens:,}", Text(text))
    return table


def _shortened(rows: list[Row]) -> list[Row]:
    hidden = rows[MOST_AT_EACH_END:-MOST_AT_EACH_END]
    if not hidden:
        return rows
    between = ("…", sum(tokens for _, tokens, _ in hidden), f"{len(hidden)} more messages")
    return [*rows[:MOST_AT_EACH_END], between, *rows[-MOST_AT_EACH_END:]]


def _first(message: JsonMessage) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    text += "".join(f" → {call['name']}({call['arguments']})" for call in calls)
    return clean(" ".join(text.split())[:MOST_CHARACTERS])
