"""What the pipeline and its ports hand each other: frozen values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from turnmill.contract.context import Usage
from turnmill.contract.correction import NOTHING_TOLD, Correction, Told
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.trajectory import TurnState
from turnmill_worker.compaction.tally import Tally
from turnmill_worker.ports.records import Batch

__all__ = [
    "Committed",
    "CountedTurn",
    "Counts",
    "Drain",
    "Failed",
    "Learned",
    "Look",
    "Mark",
    "Recorded",
    "SessionRef",
    "Summary",
    "Uncounted",
    "UncountedTurn",
]


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
    look: Look = Look(tokens=None, bound=0, ratio=1.0)
    tools_tokens: int = 0
    learned: Learned = NOTHING_LEARNED


@dataclass(frozen=True, slots=True)
class Recorded:
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
    """

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


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
