"""One short summary for each old step of an agent loop, appended and never rewritten.

The newest ``keep_recent_iterations`` stay word for word. What has been summarized stays as it is,
so that the beginning of the context does not change from commit to commit, until all events
together outgrow their share: then the older ones are folded into one, down to half of the share,
so that it takes as long again until the next fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import SummaryEvent
from turnmill.contract.estimate import Counter
from turnmill.contract.marks import DATA
from turnmill.contract.render import event_text
from turnmill_worker.compaction.plan import (
    Group,
    Plan,
    SummaryRequest,
    choose_cut,
    groups,
    records_of,
)
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.registry import Covers, register
from turnmill_worker.compaction.strategies.rolling import (
    SHARES,
    beside_summary,
    room_beside,
    summary_budget,
)

_EVENT_TOKENS = 120
"""Two or three sentences."""

_LONG_SHARE = 0.2
"""An event of a long iteration may have this share of its tokens: a few sentences lose too much."""

_EVENT_SHARE = 0.5
"""An event has at most this share of the tokens it stands for: less would not be worth it."""

_LEAST_TOKENS = 32
"""An event shorter than this says nothing."""

_Step = tuple[int, list[Group]]
"""An iteration's number and its groups."""


def iterations(snapshot: Snapshot, counter: Counter) -> Plan | None:
    """Cover every iteration but the newest ones with an event each.

    An iteration is all turns with one ``Turn.iteration``, else a user's request and what follows.
    If the newest ones are too large, fewer stay; if the newest alone is, only its newer part does.
    None when no part of it may leave, or there is no old one.
    """
    steps = _steps(snapshot, groups(snapshot))
    # An agent must find its last turn in its context.
    least = 0 if snapshot.pending_messages else 1
    most = max(snapshot.policy.keep_recent_iterations, least)
    # The policy says which iterations stay: no cut of its own could reach the target.
    roomy = replace(snapshot, goal=max(snapshot.aim, snapshot.limits.soft))
    if snapshot.usage.total <= roomy.goal:
        return _covering(roomy, _but_newest(steps, most), counter)
    kept = range(most, least - 1, -1)
    plans = (_covering(roomy, _but_newest(steps, each), counter) for each in kept)
    whole = next((plan for plan in plans if plan is not None), None)
    return whole or _covering(snapshot, _up_to_target(snapshot, steps, counter), counter)


def _but_newest(steps: Sequence[_Step], kept: int) -> list[_Step]:
    """The iterations before this many of the newest, as far as every call is answered."""
    old = list(steps[: max(len(steps) - kept, 0)])
    return old[: next((at for at, (_, own) in enumerate(old) if not _is_closed(own)), len(old))]


def _up_to_target(snapshot: Snapshot, steps: Sequence[_Step], counter: Counter) -> list[_Step]:
    """The oldest groups, iteration by iteration, that must leave to reach the session's target.

    If the newest leave less room than the events may have, the events get fewer tokens.
    """
    found = [group for _, own in steps for group in own]
    whole, most = beside_summary(snapshot, counter), summary_budget(snapshot, counter.count)
    cuts = (
        choose_cut(
            found,
            whole - int(most * share),
            pending=bool(snapshot.pending_messages),
            most_interactions=snapshot.policy.max_interactions,
        )
        for share in SHARES
    )
    at = next((at for at in cuts if at), 0)
    old = []
    for number, own in steps:
        if at > 0:
            old.append((number, own[:at]))
        at -= len(own)
    return old


def _covering(snapshot: Snapshot, old: Sequence[_Step], counter: Counter) -> Plan | None:
    """The plan that covers these iterations; None when their events have no room."""
    if not old:
        return None
    covered = tuple(group for _, own in old for group in own)
    plan = Plan(
        strategy="iterations",
        snapshot=snapshot,
        covered=covered,
        records=records_of(covered),
        summary=snapshot.stored.summary,
        receipts=snapshot.stored.receipts,
    )
    frame = snapshot.stored.model_copy(update={"watermark": plan.cut, "events": ()})
    share = min(summary_budget(snapshot, counter.count), room_beside(plan, frame, counter))
    share -= 0 if frame.summary else counter.count(DATA) + 1
    finished = list(_finished(snapshot, counter))
    left = share - sum(entry.tokens for entry in finished)
    # Shorter events rather than a fold, and room for those of the next compaction.
    entries = [*finished, *_fresh(old, counter, most=left // 2 // len(old))]
    folded = _fold(entries, share, counter)
    if share < sum(entry.tokens for entry in folded):
        return None
    return replace(
        plan,
        events=tuple(entry.event for entry in folded),
        wanted=tuple(
            (at, entry.request) for at, entry in enumerate(folded) if entry.request is not None
        ),
        replaced=sum(e.tokens for e in entries if e.request is None and e not in folded),
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """An event, what it is still to be made from, and the most tokens it takes in a context."""

    event: SummaryEvent
    request: SummaryRequest | None
    tokens: int


def _steps(snapshot: Snapshot, found: Sequence[Group]) -> list[_Step]:
    """The groups iteration by iteration, numbered on from the last event."""
    events = snapshot.stored.events
    steps: list[_Step] = []
    number = events[-1].last_iteration if events else 0
    # Only the older part of an iteration may have been covered: what follows it has its number.
    goes_on = bool(events) and events[-1].last_seq == snapshot.stored.watermark
    for group in found:
        explicit = next((t.iteration for t in group.turns if t.iteration is not None), None)
        begins = group.interactions > 0 if explicit is None else explicit != number
        if begins or not steps:
            if explicit is not None:
                number = explicit
            elif begins or not goes_on:
                number += 1
            steps.append((number, []))
        steps[-1][1].append(group)
    return steps


def _is_closed(own: Sequence[Group]) -> bool:
    return all(group.closed for group in own)


def _finished(snapshot: Snapshot, counter: Counter) -> Iterator[_Entry]:
    """The events so far."""
    for event in snapshot.stored.events:
        yield _Entry(event, None, _cost(event, counter))


def _fresh(old: Sequence[_Step], counter: Counter, *, most: int) -> Iterator[_Entry]:
    """An event without a text for each old iteration that is not pinned as a whole.

    Each takes ``most`` tokens or fewer, unless that is too little to say anything.
    """
    for number, own in old:
        said = records_of(own)
        if not said:
            continue
        tokens = sum(group.tokens for group in own if not group.pinned)
        event = SummaryEvent(
            iteration=number,
            last_iteration=number,
            first_seq=own[0].turns[0].seq,
            last_seq=own[-1].last_seq,
            text="",
        )
        frame = _cost(event, counter)
        budget = max(min(event_tokens(tokens), most - frame), _LEAST_TOKENS)
        request = SummaryRequest(previous="", records=said, budget_tokens=budget, brief=True)
        yield _Entry(event, request, frame + budget)


def event_tokens(tokens: int) -> int:
    """Most tokens of an event, given the tokens of its iteration."""
    few = max(_EVENT_TOKENS, int(tokens * _LONG_SHARE))
    return min(few, int(tokens * _EVENT_SHARE))


def _fold(entries: Sequence[_Entry], share: int, counter: Counter) -> list[_Entry]:
    """The entries; the older ones as one when all would outgrow the share."""
    kept: list[_Entry] = []
    left = share
    if sum(entry.tokens for entry in entries) > share:
        left = share // 2
    for entry in reversed(entries):
        left -= entry.tokens
        if left < 0:
            break
        kept.insert(0, entry)
    older = entries[: len(entries) - len(kept)]
    return [_as_one(older, share // 2, counter), *kept] if older else kept


def _as_one(older: Sequence[_Entry], share: int, counter: Counter) -> _Entry:
    """One event for several iterations, made from their events, and from their turns if new."""
    event = SummaryEvent(
        iteration=older[0].event.iteration,
        last_iteration=older[-1].event.last_iteration,
        first_seq=older[0].event.first_seq,
        last_seq=older[-1].event.last_seq,
        text="",
    )
    frame = _cost(event, counter)
    request = SummaryRequest(
        previous="\n".join(entry.event.text for entry in older if entry.event.text),
        records=tuple(r for entry in older if entry.request for r in entry.request.records),
        budget_tokens=max(share - frame, _LEAST_TOKENS),
        brief=True,
    )
    return _Entry(event, request, frame + request.budget_tokens)


def _cost(event: SummaryEvent, counter: Counter) -> int:
    return counter.count_messages([{"role": "user", "content": event_text(event)}])


register("iterations", Covers(iterations, "iterations"))
