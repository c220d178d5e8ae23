"""Where the log may be cut: turns that stay together, and how many of them to cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmill.contract.legality import segments
from turnmill.contract.names import Seq
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.tally import interactions
from turnmill_worker.reading.requests import opening_turns

__all__ = ["Group", "choose_cut", "groups"]


@dataclass(frozen=True, slots=True)
class Group:
    """Turns a cut may not separate: one turn, a batch of calls with its results, or what was asked.

    Attributes:
        turns: by seq.
        tokens: of all its turns, as read.
        closed: every call in it has its result, so it may be compacted.
        pinned: one of its turns is pinned; then the group is kept, so that no result is orphaned.
    """

    turns: tuple[LoggedTurn, ...]
    tokens: int
    closed: bool
    pinned: bool

    @property
    def interactions(self) -> int:
        """How many user requests the group has."""
        return sum(interactions(turn.original) for turn in self.turns)

    @property
    def last_seq(self) -> Seq:
        """Its newest turn."""
        return self.turns[-1].seq


def groups(snapshot: Snapshot) -> list[Group]:
    """The snapshot's turns in groups; one that reaches into turns not yet counted is open."""
    thumbnail = snapshot.thumbnail
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
    began = opening_turns(messages) if snapshot.stored.watermark == 0 else 0
    opening = found[:began]
    if not opening[1:] or any(group.pinned for group in opening):
        return found
    # Where only a part of what was asked is covered, nobody can tell what the rest belongs to.
    return [_one(opening), *found[began:]]


def _one(parts: Sequence[Group]) -> Group:
    """Several groups that nothing is pinned in as one."""
    return Group(
        turns=tuple(turn for part in parts for turn in part.turns),
        tokens=sum(part.tokens for part in parts),
        closed=all(part.closed for part in parts),
        pinned=False,
    )


def choose_cut(
    found: Sequence[Group],
    budget: int,
    *,
    pending: bool = False,
    most_interactions: int | None = None,
) -> int:
    """How many of the oldest groups to cover so that what stays has at most ``budget`` tokens.

    With ``most_interactions``, what stays also has at most that many. It then begins with a
    user's request, if one is left, so that no answer stays without its question.

    Returns the fewest that do; 0 when no cut does. The later groups and the pinned ones stay.
    Open groups are never covered, nor is the newest group unless ``pending`` turns follow it: an
    agent must find its last turn in its context. Linear in the number of groups.
    """
    kept = sum(group.tokens for group in found)
    freed = 0
    fewest = 0
    excess = _excess(found, most_interactions)
    for at, group in enumerate(found if pending else found[:-1], 1):
        if not group.closed:
            break
        if not group.pinned:
            kept -= group.tokens
            freed += group.tokens
        excess -= group.interactions
        if kept <= budget and freed > 0 and excess <= 0:
            fewest = fewest or at
            if most_interactions is None or _begins(found[at:]):
                return at
    return fewest


def _excess(found: Sequence[Group], most: int | None) -> int:
    """By how many the interactions exceed the limit."""
    return 0 if most is None else sum(group.interactions for group in found) - most


def _begins(found: Sequence[Group]) -> bool:
    """Whether these begin with a user's request, or with turns nobody has counted yet."""
    return not found or found[0].interactions > 0
