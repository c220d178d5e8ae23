"""The board of BEAM's chats: what the context and ten recalled memories still say at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.boards.beam_chats import BeamChat
from turnmill_cli.evaluate.boards.contexts import write_context
from turnmill_cli.evaluate.boards.recalling import recall_of
from turnmill_cli.evaluate.boards.stated import Lines, answers, superseded
from turnmill_cli.evaluate.in_memory import InMemorySession
from turnmill_cli.evaluate.methods import BASELINES, MeteredSummarizer
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.sheet import Sheet
from turnmill_cli.evaluate.word_matching import text_of
from turnmill_cli.progress import each_shown

__all__ = ["beam_board"]

BURST: Final = 10
"""Messages pushed before workers look again."""

RECALLED: Final = 10

_COLUMNS: Final = ("rules", "facts", "or recalled", "newest", "superseded", "R@5", "R@10")
_CEILING: Final = "whole turns"


@dataclass(slots=True)
class Row:
    """The measures of one way to shorten chats."""

    means: dict[str, Mean] = field(default_factory=lambda: {name: Mean() for name in _COLUMNS})
    lost: list[str] = field(default_factory=list)

    def add(self, column: str, chat: BeamChat, what: str, kept: bool) -> None:
        """Counts one; what is lost is named."""
        self.means[column].add(kept)
        if not kept:
            self.lost.append(f"{chat.name} {column}: {what}")


def beam_board(
    chats: Sequence[BeamChat],
    policy: Policy,
    metered: MeteredSummarizer,
    contexts: Path | None = None,
) -> Sheet:
    """Rules, facts and newest values in the final contexts, beside baselines of the same length."""
    rows = {name: Row() for name in ("rolling", *BASELINES, _CEILING)}
    compactions = tokens = 0
    for chat in each_shown("chats of BEAM", chats):
        session = _pushed(chat, policy, metered)
        read = session.read()
        if contexts is not None:
            write_context(contexts / f"beam-{chat.name}.md", read)
        lines = Lines(map(text_of, read))
        _score(chat, lines, rows["rolling"])
        _recall(chat, lines, session.watermark, rows["rolling"])
        room = metered.counter.count_messages(read)
        records = list(enumerate(chat.messages, 1))
        for name, shorten in BASELINES.items():
            text = shorten(records, room, metered.counter.count)
            _score(chat, Lines([text]), rows[name])
        whole = [text_of(message).replace("\n", " ") for message in chat.messages]
        _score(chat, Lines(whole), rows[_CEILING])
        compactions += session.compactions
        tokens += session.history_tokens
    sheet = Sheet(
        f"BEAM, {len(chats)} chats at {policy.max_tokens:,} tokens: what the last context states",
        ["", *_COLUMNS],
        caption=f"{tokens:,} tokens, {compactions} compactions; n: "
        + ", ".join(f"{name} {mean.n}" for name, mean in rows["rolling"].means.items()),
        lost=rows["rolling"].lost,
    )
    sheet.rows += [(name, *row.means.values()) for name, row in rows.items()]
    return sheet


def _pushed(chat: BeamChat, policy: Policy, metered: MeteredSummarizer) -> InMemorySession:
    session = InMemorySession(policy, "", metered)
    for at, message in enumerate(chat.messages, 1):
        session.add(message)
        if at % BURST == 0 or at == len(chat.messages):
            session.settle()
    return session


def _score(chat: BeamChat, lines: Lines, row: Row) -> None:
    for rule in chat.rules:
        row.add("rules", chat, rule, kept=lines.has_rule(rule))
    for question in chat.questions:
        wanted = answers(chat, question)
        if wanted:
            column = "newest" if question.is_update else "facts"
            row.add(column, chat, question.text, kept=all(map(lines.state, wanted)))
        if old := superseded(chat, question):
            stale = lines.state_superseded(question, old)
            row.means["superseded"].add(stale)
            if stale:
                row.lost.append(f"{chat.name} superseded: {question.text}")


def _recall(chat: BeamChat, lines: Lines, watermark: int, row: Row) -> None:
    """Adds what is found: evidence among all turns, and answers among those not in the context."""
    everything, covered = recall_of(chat.messages), recall_of(chat.messages[:watermark])
    for question in chat.questions:
        found = [memory.seq for memory in everything(question.text, RECALLED)]
        for seq in question.evidence + question.earlier:
            row.means["R@5"].add(seq in found[:5])
            row.means["R@10"].add(seq in found)
        if wanted := answers(chat, question):
            recalled = Lines(m.text.replace("\n", " ") for m in covered(question.text, RECALLED))
            kept = all(lines.state(each) or recalled.state(each) for each in wanted)
            row.add("or recalled", chat, question.text, kept=kept)
