"""An immutable view of a session at one version: the input of every strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import (
    Elision,
    JsonMessage,
    StoredContext,
    Usage,
)
from turnmill.contract.legality import segments
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import Limits, Policy
from turnmill_worker.compaction.image_and_request_counts import Tally, images, interactions
from turnmill_worker.compaction.ledger.selection import Fact
from turnmill_worker.spending import NOT_TRIED, Tried

__all__ = [
    "Count",
    "Group",
    "LoggedTurn",
    "Snapshot",
    "first_image_turn",
    "groups",
]

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
        iteration: the agent's own step number, or None.
        reflection: what the agent noted about its own work (``metadata.reflection``), or ``""``.
    """

    seq: Seq
    original: tuple[JsonMessage, ...]
    shown: tuple[JsonMessage, ...]
    tokens: int
    pinned: bool = False
    iteration: int | None = None
    reflection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A session at one version.

    Attributes:
        epoch: which incarnation of the name this is; a forgotten session gets a new one.
        settings: raised with every change of policy or system prompt.
        turns: counted turns after the watermark, by seq.
        pending: upper bound of the tokens of turns nobody has counted yet.
        pending_messages: messages of those turns, which may answer calls of ``turns``.
        history_tokens: of every turn ever counted, compacted or not.
        images_before: images in turns covered by now.
        compactions: commits so far.
        earlier: turns covered by now, for ``managed``, which looks back over the watermark.
        goal: most tokens a compaction may leave; 0 stands for the policy's target.
        system: the system prompt's text, for a template that shows it.
        facts: the ledger so far, of turns up to the watermark.
        tried: what came of asking models since the last commit.
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
    history_tokens: int = 0
    images_before: int = 0
    compactions: int = 0
    earlier: tuple[LoggedTurn, ...] = ()
    goal: int = 0
    system: str = ""
    facts: tuple[Fact, ...] = ()
    tried: Tried = NOT_TRIED

    @property
    def aim(self) -> int:
        """Most tokens a compaction may leave."""
        return self.goal or self.limits.target

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

    @property
    def tally(self) -> Tally:
        """What is counted beside tokens."""
        return Tally(
            images=sum(images(turn.shown) for turn in self.turns),
            images_before=self.images_before,
            interactions=sum(interactions(turn.original) for turn in self.turns),
            history_tokens=self.history_tokens,
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
    def interactions(self) -> int:
        """User requests in it."""
        return sum(interactions(turn.original) for turn in self.turns)

    @property
    def last_seq(self) -> Seq:
        """Its newest turn."""
        return self.turns[-1].seq


def first_image_turn(snapshot: Snapshot) -> Seq | None:
    """The turn with the session's first image, where the policy keeps that; None when covered."""
    policy = snapshot.policy
    if policy.max_history_images is None or not policy.keep_first_image or snapshot.images_before:
        return None
    return next((turn.seq for turn in snapshot.turns if images(turn.original)), None)


def groups(snapshot: Snapshot) -> list[Group]:
    """The snapshot's turns in groups; one that reaches into turns not yet counted is open."""
    thumbnail = first_image_turn(snapshot)
    turns: list[LoggedTurn | None] = [*snapshot.turns, *(None for _ in snapshot.pending_messages)]
    messages = [*(turn.original for turn in snapshot.turns), *snapshot.pending_messages]
    parts, last_is_open = segments(turns, messages)
    found = []
    for at, part in enumerate(parts, 1):
        counted = tuple(turn for turn in part if turn is not None)
        if counted:
            waits = len(counted) < len(part) or (last_is_open and at == len(parts))
            tokens = sum(turn.tokens for turn in counted)
            pinned = any(turn.pinned or turn.seq == thumbnail for turn in counted)
            found.append(Group(turns=counted, tokens=tokens, closed=not waits, pinned=pinned))
    return found
