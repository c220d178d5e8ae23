"""A trajectory as markdown, complete: for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from turnmill.contract.context import JsonMessage
from turnmill.contract.plural import count
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn

_MARKS = {"kept": "", "rolled-back": " — rolled back", "cleared": " — cleared"}


def markdown(trajectory: Trajectory) -> str:
    """Every turn under a heading of its own, then the compactions; images by their kind."""
    lines = [f"# Session {trajectory.session}", "", _facts(trajectory), ""]
    for lost in trajectory.lost:
        lines += [f"{lost}.", ""]
    if trajectory.system_prompt:
        lines += ["## System prompt", "", _fenced(trajectory.system_prompt), ""]
    for turn in trajectory.turns:
        lines += _turn(turn)
    if trajectory.compactions:
        lines += ["## Compactions", ""]
        lines += [
            f"- {_when(each.at_ms)}: version {each.record.version}, {each.record.strategy}, "
            f"{count(each.record.turns, 'turn')}, {each.record.tokens_before:,} → "
            f"{each.record.tokens_after:,} tokens"
            for each in trajectory.compactions
        ]
        lines.append("")
    return "\n".join(lines)


def _facts(trajectory: Trajectory) -> str:
    turns = len(trajectory.turns)
    aside = sum(turn.state != "kept" for turn in trajectory.turns)
    return (
        f"Namespace {trajectory.namespace}, {count(turns, 'turn')}"
        f"{f' ({aside} of them set aside)' if aside else ''}, "
        f"{count(len(trajectory.compactions), 'compaction')}."
    )


def _turn(turn: TrajectoryTurn) -> Iterator[str]:
    pinned = " — pinned" if turn.pinned else ""
    when = f" · {_when(turn.at_ms)}" if turn.at_ms else ""
    yield f"## Turn {turn.seq}{when}{pinned}{_MARKS[turn.state]}"
    yield ""
    for message in turn.messages:
        yield from _message(message)


def _message(message: JsonMessage) -> Iterator[str]:
    name = f" ({_line(message['name'])})" if message.get("name") else ""
    called = message.get("tool_call_id")
    answers = f" to {_line(called)}" if called else ""
    yield f"**{message['role']}**{name}{answers}:"
    yield ""
    for text in _texts(message):
        yield text
        yield ""


def _texts(message: JsonMessage) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield _quoted(content)
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield _quoted(part["text"])
        else:
            yield f"> *[{_kind(part)}]*"
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        arguments = function.get("arguments", function.get("input", ""))
        called = function.get("name", call.get("type"))
        yield f"calls `{_line(called)}` as {_line(call.get('id'))}:"
        yield _fenced(arguments if isinstance(arguments, str) else json.dumps(arguments))


def _kind(part: JsonMessage) -> str:
    url = (part.get("image_url") or {}).get("url") if part.get("type") == "image_url" else None
    if not isinstance(url, str):
        return _line(part.get("type"))
    if url.startswith("data:"):
        return f"image, {len(url):,} characters inline"
    return f"image {_line(url)}"


def _line(value: object) -> str:
    # Whatever a name or an id holds, it begins no line: it could look like a turn of its own.
    return " ".join(str(value).split())


def _quoted(text: str) -> str:
    # Quoted, so that headings inside a turn do not become headings of the transcript.
    return "\n".join(f"> {line}" for line in text.splitlines())


def _fenced(text: str) -> str:
    longest = max((len(run) for run in text.split() if set(run) == {"`"}), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
