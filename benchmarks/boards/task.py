"""The board of agents' sessions: what is left of the request, and which edited files are named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.boards.common import Sheet, cell, each_shown, write_context
from benchmarks.survival import BASELINES, rendered
from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.measuring import (
    DataSet,
    InMemorySession,
    Mean,
    MeteredSummarizer,
    stands_in,
    stems,
    text_of,
    usable,
)

_MOST_OF_ROOM: Final = 0.25
"""A request that takes more cannot stand whole."""

_COLUMNS: Final = ("request", "whole requests", "edited files")
_WHOLE: Final = 0.9
_EDITS: Final = frozenset({"create", "str_replace", "insert", "write", "edit", "append"})
_EDITOR: Final = re.compile(r"edit|write|create|patch|append", re.IGNORECASE)
_PATHS: Final = ("path", "file_path", "filename", "file_name", "file")
_SHELL: Final = re.compile(
    r"(?:(?<![\d&>])>>?|\btee(?: -a)?|\bsed -i\S*(?: -e)? (?:'[^']*'|\"[^\"]*\"))\s*"
    r"([\w./-]*\w\.\w+)"
)
"""A command that writes a file, with its path."""


def task_board(
    data: DataSet, max_tokens: int, metered: MeteredSummarizer, contexts: Path | None
) -> Sheet:
    """The request's content words and the paths of edited files in the last context.

    Of the sessions that were compacted and whose request takes at most a quarter of the room.
    """
    means = {name: {column: Mean() for column in _COLUMNS} for name in ("rolling", *BASELINES)}
    lost: list[str] = []
    policy = Policy(max_tokens=max_tokens, ledger_ratio=metered.ledger)
    for number, conversation in each_shown(data.name, list(enumerate(data.conversations, 1))):
        session, messages = _played(conversation["messages"], policy, metered)
        request = next((text_of(m) for m in messages if m["role"] == "user"), "")
        room = policy.max_tokens - session.system_tokens
        if not session.compactions or metered.counter.count(request) > _MOST_OF_ROOM * room:
            continue
        read = usable(session.read())
        if contexts is not None:
            write_context(contexts / f"{data.name}-{number}.md", read)
        texts = {"rolling": rendered(list(enumerate(read)))}
        records = list(enumerate(messages, 1))
        tokens = metered.counter.count_messages(read)
        for name, shorten in BASELINES.items():
            texts[name] = shorten(records, tokens, metered.counter.count)
        paths = set(edited(messages[: session.watermark]))
        for name, text in texts.items():
            gone = _score(request, paths, text, means[name])
            if name == "rolling" and gone:
                lost.append(f"{data.name} {number}: {' '.join(gone)}")
    title = f"{data.name}: the request, and files edited before, at {max_tokens:,} tokens"
    sheet = Sheet(title, ["", *_COLUMNS], lost=lost)
    sheet.rows += [(name, *map(cell, own.values())) for name, own in means.items()]
    n = means["rolling"]
    sheet.caption = f"n: {n['request'].n} sessions, {n['edited files'].n} edited files"
    return sheet


def _played(
    messages: Sequence[Mapping[str, Any]], policy: Policy, metered: MeteredSummarizer
) -> tuple[InMemorySession, list[Any]]:
    system = "\n".join(text_of(m) for m in messages if m["role"] == "system")
    own = usable(messages)
    session = InMemorySession(policy, system, metered)
    for message in own:
        session.push(message)
    return session, own


def _score(request: str, paths: set[str], text: str, means: Mapping[str, Mean]) -> list[str]:
    """Adds one session; returns what is missing."""
    wanted, words, lowered = stems(request), stems(text), text.lower()
    share = len(wanted & words) / len(wanted) if wanted else 1.0
    means["request"].add(share)
    means["whole requests"].add(share >= _WHOLE)
    unnamed = sorted(path for path in paths if not stands_in(lowered, path.lower()))
    means["edited files"].add(len(paths) - len(unnamed), len(paths))
    return [*unnamed, *sorted(wanted - words)]


def edited(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The paths of files that calls of an editor, or of a shell, write."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            name, arguments = _call(call)
            path = next((arguments[each] for each in _PATHS if arguments.get(each)), None)
            command = str(arguments.get("command", ""))
            if isinstance(path, str) and (
                command in _EDITS or (_EDITOR.search(name) and not command)
            ):
                yield path
            elif path is None:
                yield from (path for path in _SHELL.findall(command) if path != "/dev/null")


def _call(call: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    try:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    except (ValueError, KeyError, TypeError):
        return "", {}
    return str(name), arguments if isinstance(arguments, Mapping) else {}
