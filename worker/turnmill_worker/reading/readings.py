"""Turns as readings, each message read once; and readings of texts that older versions left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import author, is_memories, text_in
from turnmill_worker.reading.passages import Reading, read

__all__ = ["Readings", "of_older_pool", "of_summary"]

_LINE = re.compile(r"(\d{1,12}) (user|assistant|tool|system|[\w.-]{1,64}): (.*)")
_MOST, _MOST_BYTES = 2_048, 2_048
"""Messages that a process remembers as it read them, and their bytes."""

_LATELY: Final[dict[tuple[str, int, bool, bytes], Reading]] = {}
"""Messages that stayed as they are: the next compaction listens to them again, or covers them."""

_QUESTION_MARKS: Final = ("?", "？", "؟")


class Readings:
    """What messages say; whoever asks for a message again gets what was read the first time."""

    def __init__(self, count: Callable[[str], int], basis: str = "") -> None:
        """``basis``: of what counts; what it is known of is remembered from job to job."""
        self.count, self._basis = count, basis
        self._known: dict[tuple[int, int], Reading] = {}

    def of_turn(
        self,
        seq: int,
        messages: Sequence[JsonMessage],
        before: JsonMessage | None = None,
        *,
        stays: bool = False,
    ) -> list[Reading]:
        """Readings of a turn's messages, without memories.

        ``before``: the message before it; ``stays``: the turn may be asked for in a later job.
        """
        found = []
        for at, message in enumerate(messages):
            if not is_memories(message):
                reading = self._known.get((seq, at))
                if reading is None:
                    reading = self._known[seq, at] = self._read(seq, message, before, stays=stays)
                found.append(reading)
            before = message
        return found

    def _read(
        self, seq: int, message: JsonMessage, before: JsonMessage | None, *, stays: bool
    ) -> Reading:
        role = author(message)
        said = message if role == message.get("role") else {**message, "role": role}
        answers = before is not None and text_in(before).rstrip().endswith(_QUESTION_MARKS)
        written = encode_json(said) if self._basis else b""
        key = (self._basis, seq, answers, written)
        found = _LATELY.get(key) if written else None
        if found is None:
            found = read(seq, said, self.count, answers=answers)
            if stays and 0 < len(written) <= _MOST_BYTES:
                if len(_LATELY) >= _MOST:
                    _LATELY.clear()
                _LATELY[key] = found
        return found


def of_summary(text: str, count: Callable[[str], int]) -> list[Reading]:
    """A summary as readings: a line each that says who spoke when, else as an assistant's words."""
    found = []
    for line in text.split("\n"):
        told = _LINE.fullmatch(line)
        seq, who, said = (int(told[1]), told[2], told[3]) if told else (0, "assistant", line)
        role = who if who in {"user", "assistant", "system"} else "tool"
        if said.strip():
            reading = read(seq, {"role": role, "content": said}, count)
            found.append(reading._replace(who=who))
    return found


def of_older_pool(lines: Iterable[Mapping[str, Any]], count: Callable[[str], int]) -> list[Reading]:
    """What a version before this engine kept of older turns, read anew.

    Its pool held lines of groups of texts; see the changelog of 2026-11.
    """
    return [each for line in lines for each in _of_pooled(line, count)]


def _of_pooled(line: Mapping[str, Any], count: Callable[[str], int]) -> Iterator[Reading]:
    source = line.get("source")
    role = {"user": "user", "assistant": "assistant", "system": "system"}.get(str(source), "tool")
    pieces = [
        " ".join(filter(None, [str(group.get("label") or ""), *map(str, group["texts"])]))
        for group in line["groups"]
    ]
    reading = read(int(line.get("seq") or 0), {"role": role, "content": "\n".join(pieces)}, count)
    yield reading._replace(who=str(line.get("name") or reading.who))
