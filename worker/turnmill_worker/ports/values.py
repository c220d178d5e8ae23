"""What the pipeline and its ports hand each other: frozen values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.context import StoredContext, Usage
from turnmill.contract.correction import NOTHING_TOLD, Correction, Told
from turnmill.contract.erasure import How
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.log_entry import ERASED_AT
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import Policy
from turnmill.contract.trajectory import TurnState
from turnmill_worker.compaction.items import Item
from turnmill_worker.compaction.snapshot import Tally
from turnmill_worker.failover.branches import Tip
from turnmill_worker.reading.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTurn:
    """One turn as Redis held it.

    Attributes:
        messages: JSON array; images as ``blob:`` references.
        fields: JSON object of iteration, metadata and pinned, or ``b""``.
        at_ms: when it was admitted.
        tokens: exact, or None when no worker counted it.
        blobs: sha256 of each image it refers to.
        chain: the same exactly if it and all turns before are; ``""`` of older clients.
        by: the commit that took it from the log, or set it aside; ``""`` when that had no id.
    """

    seq: Seq
    messages: bytes
    turn_id: str
    fields: bytes
    at_ms: int
    tokens: int | None
    state: TurnState = "kept"
    blobs: tuple[str, ...] = ()
    chain: str = ""
    by: str = ""

    def is_same(self, other: ArchivedTurn) -> bool:
        """Whether both are one turn of one history, whatever became of it since."""
        if self.chain and other.chain:
            return self.chain == other.chain
        if self.erased_at_ms or other.erased_at_ms:
            return self.at_ms == other.at_ms
        mine, others = (
            (each.turn_id, each.at_ms, each.messages, each.fields) for each in (self, other)
        )
        return mine == others

    @property
    def erased_at_ms(self) -> int | None:
        """When the turn was erased; None if it was not."""
        if ERASED_AT.encode() not in self.fields:
            return None
        try:
            found = decode_json(self.fields)
        except (RecursionError, ValueError):
            return None
        at_ms = found.get(ERASED_AT) if isinstance(found, dict) else None
        return at_ms if isinstance(at_ms, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCompaction:
    """One commit.

    Attributes:
        record: JSON of a ``Compaction``.
        context: JSON of the ``StoredContext`` it wrote.
        detail: JSON of the managed view it made (template, input, raw output), or ``b""``.
        commit_id: its own, random; ``""`` of older workers.
    """

    version: Version
    at_ms: int
    record: bytes
    context: bytes
    detail: bytes = b""
    commit_id: str = ""

    def is_same(self, other: ArchivedCompaction) -> bool:
        """Whether both are one commit."""
        if self.commit_id and other.commit_id:
            return self.commit_id == other.commit_id
        # One whose context was emptied by an erasure still has its time.
        same = self.context == other.context or self.at_ms == other.at_ms
        return same and self.record == other.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One image, by its content."""

    sha256: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one drain moves; storing it twice changes nothing."""

    turns: tuple[ArchivedTurn, ...] = ()
    compactions: tuple[ArchivedCompaction, ...] = ()
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Something an agent of the namespace said, learned or was told to remember.

    Attributes:
        id: ``<session>:<epoch>:turn:<seq>``, ``…:summary`` (one per incarnation,
            replaced in place), ``…:event:<first_seq>``, or the id of a pushed one.
        kind: where it comes from.
        text: what is retrieved; a summary's begins with ``[context-summary]``.
        speaker: the speaker's role or name, ``tool`` for what a tool returned, or ``""``.
        session: whose it is; None for one pushed to the namespace.
        seq: the turn it was said in; None for all others.
        position: its number among what was said in one incarnation of a session, without gaps:
            what is said nearby helps to find a memory. What a tool returned has the number of
            what was said before. 0 for all others.
        at_ms: when it was made.
    """

    id: str
    kind: Literal["turn", "summary", "pushed"]
    text: str
    speaker: str = ""
    session: SessionId | None = None
    seq: Seq | None = None
    position: int = 0
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """How many rows of each kind left the archive."""

    turns: int = 0
    compactions: int = 0
    views: int = 0
    blobs: int = 0
    memories: int = 0

    def __add__(self, other: Removed) -> Removed:
        parts = (each.name for each in fields(self))
        return Removed(**{name: getattr(self, name) + getattr(other, name) for name in parts})


FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 300.0
"""Pauses of a session that waits for a model, or whose job failed, double from first to longest."""


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session and the namespace it belongs to."""

    namespace: Namespace
    session: SessionId


@dataclass(frozen=True, slots=True)
class UncountedTurn:
    """A turn nobody has counted.

    Attributes:
        bound: an upper estimate of its tokens.
        chain: the same exactly if it and all turns before are.
    """

    seq: Seq
    messages: tuple[dict[str, Any], ...]
    bound: int = 0
    chain: str = ""


@dataclass(frozen=True, slots=True)
class CountedTurn:
    """A turn's exact tokens, as it is read; and what is in it besides text."""

    seq: Seq
    tokens: int
    images: int = 0
    interactions: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """The oldest turns nobody has counted, and the session's numbers as of then.

    Attributes:
        epoch, revision: which incarnation of the session, and which policy, prompt and tools,
            counts belong to.
        basis: how the present counts were made; ``""`` before the first.
        open_calls: calls among the counted turns that still wait for their result.
        usage: tokens by part, without those of uncounted turns.
        tally: other counts, without those of uncounted turns.
        put_off: tokens below which no compaction is tried again, or 0.
        summarized: whether the session's last compaction needed a summary.
        turns: oldest first.
        tools: JSON of the tools' schemas, or empty.
        version: of the context.
        correction: what was learned of the provider's tokens.
        told: what the provider counted last, or None.
    """

    epoch: str
    revision: str
    policy: Policy
    system: str
    basis: str
    counted_seq: Seq
    open_calls: tuple[str, ...]
    usage: Usage
    tally: Tally
    put_off: int
    summarized: bool
    turns: tuple[UncountedTurn, ...]
    tools: bytes = b""
    version: int = 0
    correction: Correction = NOTHING_TOLD
    told: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """When a push has to ask for a count: before that, nothing can be due.

    Attributes:
        tokens: expected in the context; None when more of them make nothing else due.
        bound: at most in the context, by the bounds of turns not counted; 0 at every push.
        ratio: tokens expected for one of a bound.
    """

    tokens: int | None
    bound: int
    ratio: float


class Learned(NamedTuple):
    """What an agent told, and the ratios with it, as they are stored; or nothing."""

    told: str = ""
    ratios: str = ""


NOTHING_LEARNED: Final = Learned()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a job found when it counted turns.

    Attributes:
        basis: how they were counted: encoding, version, image formula.
        open_calls: calls that wait for their result after these turns.
        due, urgent: whether a compaction is wanted, and whether there is no room to wait for it.
        handover_s: when the sweep doubts that a summary job handed on was ever received, or 0.
        idle_s: after how long without a push it is due all the same, or 0.
        look: when to count again.
        learned: of the provider's tokens.
    """

    basis: str
    system_tokens: int
    open_calls: Sequence[str]
    turns: Sequence[CountedTurn]
    due: bool
    urgent: bool = False
    handover_s: float = 0.0
    idle_s: float = 0.0
    look: Look = Look(tokens=None, bound=0, ratio=1.0)
    tools_tokens: int = 0
    learned: Learned = NOTHING_LEARNED


@dataclass(frozen=True, slots=True)
class RecordedCounts:
    """What became of counts: the session may be stale, still waiting, or newly due."""

    stale: bool
    waiting: bool
    newly_due: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's new version, or 0 when another came first; and whether to compact again."""

    version: int
    again: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """How many compactions in a row failed, and whether the session is parked now."""

    times: int
    parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a summarizer wrote.

    Attributes:
        text: the summary.
        model: the name of what wrote it.
        prompt_tokens, completion_tokens: billed.
        cost_usd: of those, or None when no price is known.
        items: the statements that the text is made of, where it is: fewer of them make a text too.
        added: how many of them are new.
        dropped: how many statements could not be believed, by reason; and how many answers were
            asked for again, as of ``Compaction.items``.
    """

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    items: tuple[Item, ...] = ()
    added: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Turns set aside after they left the log, by a commit."""

    after_seq: int
    through_seq: int
    state: TurnState
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What goes to the archive at once: turns and marks, in order, and how far they reach.

    Attributes:
        entries: how many there are in Redis.
        commits: ids of the commits that they came by.
        until_s: when it is too late to store it, by the monotonic clock.
    """

    epoch: str
    steps: tuple[Batch | Mark, ...]
    turns_through: str
    commits_through: str
    entries: int = 0
    commits: frozenset[str] = frozenset()
    until_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """A state a rollback can restore.

    Attributes:
        id, message: the checkpoint's, or ``version <n>`` and ``""``.
        entry: of its stream in Redis, or ``""``.
        seq, stored: its newest turn, and its context.
    """

    id: str
    entry: str
    seq: Seq
    stored: StoredContext
    at_ms: int = 0
    message: str = ""


def after_drain(
    archived: Iterable[ArchivedTurn], left: Iterable[ArchivedTurn | Mark]
) -> dict[int, ArchivedTurn]:
    """Turns by seq as the archive will have them when this is drained."""
    found: dict[int, ArchivedTurn] = {turn.seq: turn for turn in archived}
    for step in left:
        if isinstance(step, ArchivedTurn):
            # What is archived already may be marked by now; or Redis went back, and it is another.
            if step.seq not in found or not found[step.seq].is_same(step):
                found[step.seq] = step
            continue
        for seq, turn in found.items():
            if step.after_seq < seq <= step.through_seq and turn.state == "kept":
                found[seq] = replace(turn, state=step.state)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInRedis:
    """All of a session that is in Redis, at one moment.

    Attributes:
        commit_id: of the last commit; ``""`` when there is none, or it had no id.
        tokens: of the context, without turns nobody has counted.
        left: turns that left the log and are not archived yet, and marks, in that order.
        log: turns after the watermark.
        checkpoints: oldest first.
        commits: contexts committed and not archived yet.
    """

    epoch: str
    revision: str
    policy: Policy
    version: Version
    watermark: Seq
    last_seq: Seq
    system: str
    system_tokens: int
    basis: str
    tokens: int
    left: tuple[ArchivedTurn | Mark, ...]
    log: tuple[ArchivedTurn, ...]
    checkpoints: tuple[EarlierState, ...]
    commits: tuple[ArchivedCompaction, ...]
    commit_id: str = ""
    tools: bytes = b""

    @property
    def tip(self) -> Tip:
        """Its newest turn and commit."""
        return Tip(
            epoch=self.epoch, seq=self.last_seq, version=self.version, commit_id=self.commit_id
        )

    @property
    def seen(self) -> Batch:
        """All turns and commits, as the archive would have them."""
        left = (each for each in self.left if isinstance(each, ArchivedTurn))
        return Batch(turns=(*left, *self.log), compactions=self.commits)

    def with_archived(self, archived: Sequence[ArchivedTurn]) -> list[ArchivedTurn]:
        """These turns and those in Redis together, once each, by seq, as they are by now."""
        found = after_drain(archived, self.left) | {turn.seq: turn for turn in self.log}
        return [found[seq] for seq in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A state as it is written back, counted.

    Attributes:
        stored: its context, with the version it will have.
        turns: its turns after the watermark, with their exact tokens.
        used: entry of the checkpoint that the rollback uses up, or ``""``.
        due: its context is over the soft limit.
    """

    seq: Seq
    stored: StoredContext
    turns: tuple[tuple[ArchivedTurn, CountedTurn], ...]
    open_calls: tuple[str, ...]
    basis: str
    images_before: int
    quality: float | None
    record: Compaction
    used: str
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """How a session begins that is forked from another.

    Attributes:
        ref, epoch: the new session.
        parent: its past is the one of this session.
        state: its context, and its turns after the watermark; ``state.seq`` is the newest.
        turns, commits: its past that is in no archive; where there is one, it has all of it.
        images: those shown.
        ids: the newest ids of turns, with their seqs.
        history_tokens: of all its turns.
        until_ms: it does not begin later than that.
        known: of a child, what is known of its turns: it has words of its parent's user and the
            parent's policy, and nothing else of it. None of a fork: it knows what its parent did.
    """

    ref: SessionRef
    epoch: str
    parent: SessionRef
    state: Restored
    turns: tuple[ArchivedTurn, ...]
    commits: tuple[ArchivedCompaction, ...]
    images: tuple[Blob, ...]
    ids: tuple[tuple[str, int], ...]
    chain: str
    history_tokens: int
    until_ms: int
    known: Known | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """That a session was forked from another, or that one's past was of it.

    Attributes:
        session, epoch: the fork.
        until_ms: what does not exist by then was never begun.
    """

    session: SessionId
    epoch: str
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleansed:
    """A session in Redis as an erasure leaves it.

    Attributes:
        state: the context and the log as they will be; ``state.seq`` is the newest turn known.
        turns: by seq, what stands in the place of each erased turn.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        remade: the context is an earlier one, and later turns are in the log again.
    """

    state: Restored
    turns: Mapping[int, ArchivedTurn]
    contexts: tuple[ArchivedCompaction, ...]
    checkpoints: tuple[str, ...]
    remade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """What an erasure changes in the archive, of one incarnation of a session.

    Attributes:
        turns: what stands in the place of erased turns that left the log.
        all_turns: their seqs, with those still in the log.
        contexts: the commits of each context made of them, with what stands in its place.
        memories: ids of pushed memories that go.
    """

    turns: tuple[ArchivedTurn, ...]
    all_turns: tuple[int, ...]
    contexts: tuple[ArchivedCompaction, ...]
    memories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """How much left the archive."""

    memories: int = 0
    images: int = 0

    def __add__(self, other: Gone) -> Gone:
        return Gone(memories=self.memories + other.memories, images=self.images + other.images)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The record of an erasure: that it was, not what it was of; ``Erased`` explains the fields."""

    id: str
    session: SessionId
    at_ms: int
    by: str
    how: How
    turns: tuple[Seq, ...]
    contexts: int
    checkpoints: int
    memories: int
    images: int
