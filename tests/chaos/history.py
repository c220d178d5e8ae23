"""What agents did, written down as they did it: one JSON line when a call begins, one when it ends.

Each line is on disk before the agent goes on. A call without an end is one whose outcome nobody
knows: its agent was killed. Times are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from turnmill import Context
from turnmill.contract.context import JsonMessage, Receipt
from turnmill.contract.names import Seq, SessionId, Version
from turnmill_cli.promises import fingerprint

__all__ = ["Call", "History", "ReadResult", "Recorder", "load"]

Kind = Literal["push", "read"]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a read returned; its messages by fingerprint."""

    version: int
    watermark: int
    last_seq: int
    tokens: int
    exact: bool
    projection: dict[str, Any] | None
    system_prompt: str
    keys: tuple[str, ...]

    @classmethod
    def of(cls, context: Context) -> ReadResult:
        """The same, without the messages."""
        return cls(
            version=context.version,
            watermark=context.watermark,
            last_seq=context.last_seq,
            tokens=context.tokens,
            exact=context.exact,
            projection=context.projection.model_dump() if context.projection else None,
            system_prompt=context.system_prompt,
            keys=tuple(fingerprint(message).hex() for message in context.messages),
        )

    def context(self, session: str, messages: dict[str, JsonMessage]) -> Context:
        """The context as the agent got it."""
        return Context(
            messages=[messages[key] for key in self.keys],
            session=SessionId(session),
            version=Version(self.version),
            watermark=Seq(self.watermark),
            last_seq=Seq(self.last_seq),
            tokens=self.tokens,
            exact=self.exact,
            projection=Receipt(**self.projection) if self.projection else None,
            system_prompt=self.system_prompt,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an agent.

    Attributes:
        turns: what it pushed, in order.
        ended_s: when it returned or raised; None when nobody knows whether it did.
        seqs: of a push that was acknowledged; those of ``turns``, in order.
        read: of a read that returned.
        error: the kind of what it raised, or ``""``.
    """

    agent: str
    kind: Kind
    session: str
    began_s: float
    turns: tuple[str, ...] = ()
    ended_s: float | None = None
    seqs: tuple[int, ...] = ()
    read: ReadResult | None = None
    error: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether the agent was told that it was done."""
        return self.ended_s is not None and not self.error


@dataclass(frozen=True)
class History:
    """All calls of all agents, and the messages their reads showed, by fingerprint."""

    calls: tuple[Call, ...]
    messages: dict[str, JsonMessage] = field(default_factory=dict)

    def of(self, session: str, kind: Kind) -> Iterator[Call]:
        """The calls of one kind in one session, in the order in which they began."""
        return iter(self._sorted.get((session, kind), ()))

    @cached_property
    def _sorted(self) -> dict[tuple[str, str], list[Call]]:
        found: dict[tuple[str, str], list[Call]] = {}
        for call in self.calls:
            found.setdefault((call.session, call.kind), []).append(call)
        return found


class Recorder:
    """Writes one agent's history."""

    def __init__(self, file: Path, agent: str) -> None:
        self._file = file.open("a")
        self._agent = agent
        self._number = 0
        self._seen: set[str] = set()

    def begin(self, kind: Kind, session: str, turns: Sequence[str] = ()) -> int:
        """Note that a call begins; returns its number."""
        self._number += 1
        said = {"agent": self._agent, "kind": kind, "session": session, "turns": turns}
        self._write({"n": self._number, "began_s": time.monotonic(), **said})
        return self._number

    def end(self, number: int, *, seqs: Sequence[int] = (), error: str = "") -> None:
        """Note that it ended, with the seqs of what it pushed or an error."""
        self._write({"n": number, "ended_s": time.monotonic(), "seqs": seqs, "error": error})

    def end_read(self, number: int, context: Context) -> None:
        """Note what a read returned."""
        at = time.monotonic()
        result = ReadResult.of(context)
        shown = dict(zip(result.keys, context.messages, strict=True))
        new = {key: message for key, message in shown.items() if key not in self._seen}
        self._seen.update(new)
        slots = {name: getattr(result, name) for name in ReadResult.__slots__}
        self._write({"n": number, "ended_s": at, "read": slots, "messages": new})

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fdatasync(self._file.fileno())


def load(folder: Path) -> History:
    """The history of all agents that wrote into the folder."""
    calls: list[Call] = []
    messages: dict[str, JsonMessage] = {}
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[int, dict[str, Any]] = {}
        for line in _lines(file):
            messages |= line.pop("messages", {})
            begun.setdefault(line.pop("n"), {}).update(line)
        calls += map(_call, begun.values())
    calls.sort(key=lambda call: call.began_s)
    return History(tuple(calls), messages)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last one of a killed agent may be cut off
            yield json.loads(line)


def _call(line: dict[str, Any]) -> Call:
    read = line.pop("read", None)
    if read is not None:
        read["keys"] = tuple(read["keys"])
    line |= {name: tuple(line.get(name, ())) for name in ("turns", "seqs")}
    return Call(**line, read=ReadResult(**read) if read else None)
