"""An immutable view of a session at one version: the input of every strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import (
    Elision,
    JsonMessage,
    Receipt,
    StoredContext,
    Usage,
)
from turnmill.contract.legality import segments
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import Limits, Policy

__all__ = ["Count", "Group", "LoggedTurn", "Plan", "Snapshot", "SummaryRequest", "groups"]

Count = Callable[[Sequence[JsonMessage]], int]
"""Exact tokens of a list of messages, without the reply's opening; additive."""


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A turn of the log that has been counted.

    Attributes:
        seq: its position.
        original: as pushed; what a summarizer is given.
        shown: as read, elisions applied.
        tokens: of ``shown``, exact.
        pinned: it must be kept word for word.
    """

    seq: Seq
    original: tuple[JsonMessage, ...]
    shown: tuple[JsonMessage, ...]
    tokens: int
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A session at one version.

    Attributes:
        epoch: which incarnation of the name this is; a forgotten session gets a new one.
        settings: raised with every change of policy or system prompt.
        turns: counted turns after the watermark, by seq.
        pending: upper bound of the tokens of turns nobody has counted yet.
        pending_messages: messages of those turns, which may answer calls of ``turns``.
    """

    namespace: Namespace
    session: SessionId
    epoch: str
    settings: str
    policy: Policy
    system_tokens: int
    stored: StoredContext
    turns: tuple[LoggedTurn, ...]
    counted_seq: Seq
    pending: int = 0
    pending_messages: tuple[tuple[JsonMessage, ...], ...] = ()

    @property
    def version(self) -> Version:
        """The version every commit planned from this snapshot must find."""
        return self.stored.version

    @property
    def limits(self) -> Limits:
        """The session's absolute limits."""
        return self.policy.limits(self.system_tokens)

    @property
    def usage(self) -> Usage:
        """Tokens by part."""
        return Usage(
            system=self.system_tokens,
            summary=self.stored.tokens,
            tail=sum(turn.tokens for turn in self.turns),
            pending=self.pending,
        )

    def with_elisions(self, elisions: Sequence[Elision]) -> Snapshot:
        """The same session as it would be read with these elisions added."""
        by_seq: dict[int, dict[int, Elision]] = {}
        for elision in elisions:
            by_seq.setdefault(elision.seq, {})[elision.index] = elision
        turns = tuple(_elide(turn, by_seq.get(turn.seq, {})) for turn in self.turns)
        kept = [e for e in self.stored.elisions if e.index not in by_seq.get(e.seq, {})]
        merged = sorted([*kept, *elisions], key=lambda e: (e.seq, e.index))
        stored = self.stored.model_copy(update={"elisions": tuple(merged)})
        return replace(self, turns=turns, stored=stored)


def _elide(turn: LoggedTurn, elisions: dict[int, Elision]) -> LoggedTurn:
    if not elisions:
        return turn
    shown = tuple(
        elisions[at].message if at in elisions else message for at, message in enumerate(turn.shown)
    )
    saved = sum(e.tokens_before - e.tokens_after for e in elisions.values())
    return replace(turn, shown=shown, tokens=turn.tokens - saved)


@dataclass(frozen=True, slots=True)
class Group:
    """Turns a cut may not separate: one turn, or a batch of calls with its results.

    Attributes:
        turns: by seq.
        tokens: of all its turns, as read.
        closed: every call in it has its result, so it may be compacted.
        pinned: one of its turns is; then all of it is kept, so that no result is orphaned.
    """

    turns: tuple[LoggedTurn, ...]
    tokens: int
    closed: bool
    pinned: bool

    @property
    def last_seq(self) -> Seq:
        """Its newest turn."""
        return self.turns[-1].seq


def groups(snapshot: Snapshot) -> list[Group]:
    """The snapshot's turns in groups; one that reaches into turns not yet counted is open."""
    turns: list[LoggedTurn | None] = [*snapshot.turns, *(None for _ in snapshot.pending_messages)]
    messages = [*(turn.original for turn in snapshot.turns), *snapshot.pending_messages]
    parts, last_is_open = segments(turns, messages)
    found = []
    for at, part in enumerate(parts, 1):
        counted = tuple(turn for turn in part if turn is not None)
        if counted:
            waits = len(counted) < len(part) or (last_is_open and at == len(parts))
            tokens = sum(turn.tokens for turn in counted)
            pinned = any(turn.pinned for turn in counted)
            found.append(Group(turns=counted, tokens=tokens, closed=not waits, pinned=pinned))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What a summarizer is asked: a text standing for the previous summary and these messages.

    Attributes:
        previous: the summary so far, or ``""``.
        records: (seq, message) of every turn to be covered, oldest first, never truncated.
        budget_tokens: most tokens the text may have.
    """

    previous: str
    records: tuple[tuple[Seq, JsonMessage], ...]
    budget_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a compaction will do.

    Attributes:
        strategy: the rung of the ladder that made it.
        snapshot: what it was planned from, with the elisions the plan makes.
        covered: groups a summary or a receipt will stand for; pinned ones among them stay.
        request: the summary it needs, or None.
        summary: the summary when none is requested.
        receipts: all receipts of the new context.
    """

    strategy: str
    snapshot: Snapshot
    covered: tuple[Group, ...] = ()
    request: SummaryRequest | None = None
    summary: str = ""
    receipts: tuple[Receipt, ...] = ()

    @property
    def cut(self) -> Seq:
        """Turns up to it are covered; the watermark when none are."""
        return self.covered[-1].last_seq if self.covered else self.snapshot.stored.watermark
