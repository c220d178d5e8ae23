"""One short summary for each old step of an agent loop, appended and never rewritten.

The newest ``keep_recent_iterations`` stay word for word. What has been summarized stays as it is,
so that the beginning of the context does not change from commit to commit, until all events
together outgrow their share: then the older half is folded into one.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import SummaryEvent
from turnmill.contract.render import event_text
from turnmill_worker.compaction.rolling import summary_budget
from turnmill_worker.compaction.snapshot import (
    Count,
    Group,
    Plan,
    Snapshot,
    SummaryRequest,
    groups,
    records,
)

__all__ = ["iterations"]

_EVENT_TOKENS = 120
"""Two or three sentences."""

_EVENT_SHARE = 0.5
"""An event has at most this share of the tokens it stands for: less would not be worth it."""

_LEAST_TOKENS = 24


def iterations(snapshot: Snapshot, count: Count) -> Plan | None:
    """Cover every iteration but the newest ones with an event each; None when there is no old one.

    An iteration is what carries one ``Turn.iteration``; without, a user's request and what follows.
    """
    steps = _steps(snapshot, groups(snapshot))
    # An agent must find its last turn in its context.
    kept = max(snapshot.policy.keep_recent_iterations, 0 if snapshot.pending_messages else 1)
    old = steps[: max(len(steps) - kept, 0)]
    old = old[: next((at for at, (_, own) in enumerate(old) if not _is_closed(own)), len(old))]
    if not old:
        return None
    covered = tuple(group for _, own in old for group in own)
    events, wanted = _events(snapshot, old)
    events, wanted = _fold(snapshot, events, wanted, count)
    return Plan(
        strategy="iterations",
        snapshot=snapshot,
        covered=covered,
        summary=snapshot.stored.summary,
        receipts=snapshot.stored.receipts,
        events=tuple(events),
        wanted=tuple(wanted),
    )


_Step = tuple[int, list[Group]]
"""An iteration's number and its groups."""

_Wanted = tuple[int, SummaryRequest]
"""Which event is to be summarized, and from what."""


def _steps(snapshot: Snapshot, found: Sequence[Group]) -> list[_Step]:
    """The groups iteration by iteration, numbered on from the last event."""
    events = snapshot.stored.events
    steps: list[_Step] = []
    number = events[-1].last_iteration if events else 0
    for group in found:
        explicit = next((t.iteration for t in group.turns if t.iteration is not None), None)
        begins = group.interactions > 0 if explicit is None else explicit != number
        if begins or not steps:
            number = explicit if explicit is not None else number + 1
            steps.append((number, []))
        steps[-1][1].append(group)
    return steps


def _is_closed(own: Sequence[Group]) -> bool:
    return all(group.closed for group in own)


def _events(snapshot: Snapshot, old: Sequence[_Step]) -> tuple[list[SummaryEvent], list[_Wanted]]:
    """The events so far, and an empty one for each old iteration with what it is made from."""
    events = list(snapshot.stored.events)
    wanted = []
    for number, own in old:
        said = records(own)
        tokens = sum(group.tokens for group in own if not group.pinned)
        if not said:
            continue  # all of it is pinned
        budget = max(min(_EVENT_TOKENS, int(tokens * _EVENT_SHARE)), _LEAST_TOKENS)
        wanted.append(
            (len(events), SummaryRequest(previous="", records=said, budget_tokens=budget))
        )
        events.append(
            SummaryEvent(
                iteration=number,
                last_iteration=number,
                first_seq=own[0].turns[0].seq,
                last_seq=own[-1].last_seq,
                text="",
            )
        )
    return events, wanted


def _fold(
    snapshot: Snapshot, events: list[SummaryEvent], wanted: list[_Wanted], count: Count
) -> tuple[list[SummaryEvent], list[_Wanted]]:
    """The older half of the finished events as one, when all would outgrow the summary's share."""
    budgets = {at: request.budget_tokens for at, request in wanted}
    tokens = sum(
        count([{"role": "user", "content": event_text(event)}]) + budgets.get(at, 0)
        for at, event in enumerate(events)
    )
    share = summary_budget(snapshot)
    half = (len(events) - len(wanted) + 1) // 2
    if tokens <= share or half < _FOLDED_AT_LEAST:
        return events, wanted
    folded = SummaryEvent(
        iteration=events[0].iteration,
        last_iteration=events[half - 1].last_iteration,
        first_seq=events[0].first_seq,
        last_seq=events[half - 1].last_seq,
        text="",
    )
    request = SummaryRequest(
        previous="\n".join(event.text for event in events[:half]),
        records=(),
        budget_tokens=max(share // 4, _EVENT_TOKENS),
    )
    shifted = [(at - half + 1, each) for at, each in wanted]
    return [folded, *events[half:]], [(0, request), *shifted]


_FOLDED_AT_LEAST = 2
