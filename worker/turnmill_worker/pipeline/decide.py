"""Whether a session needs a compaction: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from turnmill.contract.context import Limits, Usage
from turnmill.contract.estimate import file_of
from turnmill.contract.legality import segments
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.snapshot import Snapshot, counts_more_than_tokens
from turnmill_worker.ports.values import Look

USUAL_RATIO: Final = 0.5
"""Tokens of a turn for one of its bound, as long as few turns of a session are known."""

KNOWN_TOKENS: Final = 1000
"""Bounds from which on a session's own ratio counts for more than the usual one."""

NEXT_TURN: Final = 1 / 10
"""The share of the room the next turn's bound may take; more where such turns were seen."""

BYTES_OF_BOUND: Final = 2.5
"""Bytes of a turn for one token of the bound that its push notes; 2.3 were seen at most."""

LARGEST_TURN: Final = 1 / 4
"""The share of the room from which on a turn is too rare to be reckoned with."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Compact:
    """A compaction is wanted.

    Attributes:
        requirement: ``soft`` when it can wait, ``urgent`` when it cannot wait long, ``hard`` when
            reads already need projections.
        reasons: the comparisons that were true.
    """

    requirement: Literal["soft", "urgent", "hard"]
    reasons: tuple[str, ...]


Decision = Skip | Compact


def decide(usage: Usage, limits: Limits, exceeded: Mapping[str, str] | None = None) -> Decision:
    """Compact above the soft limit, or when a count is exceeded (``compaction.tally``).

    Between target and soft limit nothing happens (hysteresis).
    """
    if usage.total <= limits.soft:
        if exceeded:
            return Compact("soft", tuple(exceeded.values()))
        return Skip(f"{usage.total} tokens are within the soft limit of {limits.soft}")
    if usage.total > limits.hard:
        return Compact("hard", (f"{usage.total} tokens exceed the hard limit of {limits.hard}",))
    requirement: Literal["soft", "urgent"] = "urgent" if usage.total > limits.urgent else "soft"
    return Compact(requirement, (f"{usage.total} tokens exceed the soft limit of {limits.soft}",))


def waits_for_quiet(policy: Policy, usage: Usage, limits: Limits, *, put_off: int) -> bool:
    """Whether the policy wants it compacted once nothing was pushed for a while."""
    if not policy.compact_when_idle_s:
        return False
    return usage.total > max(policy.idle_limit(limits), put_off - 1)


def until_idle(snapshot: Snapshot) -> float | None:
    """Seconds until it is compacted unless something is pushed; None: it is not, whatever comes.

    While a call is open its result is on the way, whatever time that takes.
    """
    policy, limits, off = snapshot.policy, snapshot.limits, snapshot.put_off
    if not waits_for_quiet(policy, snapshot.usage, limits, put_off=off) or is_open(snapshot):
        return None
    return max(policy.compact_when_idle_s - snapshot.quiet_s, 0.0)


def is_open(snapshot: Snapshot) -> bool:
    """Whether its newest turns have a call without a result."""
    messages = [*(turn.original for turn in snapshot.turns), *snapshot.pending_messages]
    return segments(messages, messages)[1]


def next_look(
    policy: Policy,
    usage: Usage,
    limits: Limits,
    *,
    put_off: int,
    counted: int,
    bounds: Sequence[int],
) -> Look:
    """When turns not counted yet may make something due.

    That is when they are expected to reach the next limit, or when by their bounds the read after
    one more turn might have to project. A policy that counts images, interactions or runs may be
    exceeded by any turn.

    ``usage`` is with all turns counted so far; the last of them have ``counted`` tokens, and had
    these ``bounds``. Below ``put_off`` tokens no compaction is tried again.
    """
    known = sum(bounds)
    # An agent that counts gives bounds that are exact.
    usual = 1.0 if counted == known > 0 else USUAL_RATIO
    ratio = (counted + usual * KNOWN_TOKENS) / (known + KNOWN_TOKENS)
    if counts_more_than_tokens(policy):
        return Look(tokens=None, bound=0, ratio=ratio)
    ahead = (max(limits.soft, put_off), limits.urgent)
    tokens = next((limit - Usage.REPLY for limit in ahead if usage.total <= limit), None)
    margin = min(max(limits.room * NEXT_TURN, *bounds, 0), limits.room * LARGEST_TURN)
    most = limits.hard - Usage.REPLY - int(margin)
    if file_of(policy.encoding):
        # A push adds up its own bounds, and a read goes by bytes.
        most = usage.total + int((most - usage.total) / BYTES_OF_BOUND)
    return Look(tokens=tokens, bound=most, ratio=ratio)
