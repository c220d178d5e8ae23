"""A summarization somebody asked for, whatever the limits say."""

from __future__ import annotations

from dataclasses import replace

from turnmill.contract.estimate import Counter
from turnmill.contract.render import request_entry
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import (
    Group,
    Plan,
    SummaryRequest,
    groups,
    previous_text,
    records_of,
)
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.iterations import iterations
from turnmill_worker.compaction.strategies.managed import for_template, runs
from turnmill_worker.compaction.strategies.rolling import ledger_budget, summary_budget
from turnmill_worker.reading.requests import images_tokens

_SHARE = 0.8
"""A forced summary has at most this share of the tokens it stands for: else it saves nothing."""

_SHORT_SHARE = 1.25
_SHORT_TOKENS = 300
"""What is short is kept whole, each line under its number; where that saves nothing, nothing is
done."""


def force(snapshot: Snapshot, counter: Counter, *, template: str = "") -> Plan | None:
    """Cover all but the newest ``recent_turns_to_keep`` turns; None when there are no others.

    By a managed summary when a template is named, else in the way of the policy: an event for each
    iteration but the newest, a summary written to the policy's template, or a rolling one.
    """
    heard = heard_in(snapshot, counter)
    if not template and "iterations" in snapshot.policy.strategies:
        snapshot = heard.given_room(snapshot, through=snapshot.counted_seq)
        return iterations(replace(snapshot, goal=snapshot.limits.hard), counter)
    if not template and "managed" in snapshot.policy.strategies:
        template = snapshot.policy.template
    covered = _older(groups(snapshot), snapshot.policy.recent_turns_to_keep)
    records = records_of(covered)
    if not records:
        return None
    snapshot = heard.given_room(snapshot, through=covered[-1].last_seq)
    tokens = snapshot.stored.tokens + sum(g.tokens for g in covered if not g.pinned)
    tokens -= _asked_tokens(snapshot, counter)
    budget = min(summary_budget(snapshot, counter.count), _wanted(tokens))
    request = SummaryRequest(
        previous=previous_text(snapshot.stored),
        records=records,
        budget_tokens=budget,
        template=template,
    )
    if template:
        told = [turn for group in covered for turn in group.turns]
        request = for_template(request, told=told, latest=runs(snapshot.turns)[-1])
    return Plan(
        strategy="managed" if template else "rolling",
        snapshot=replace(snapshot, goal=snapshot.limits.hard),
        covered=covered,
        records=records,
        receipts=snapshot.stored.receipts,
        managed=bool(template),
        # Another form was asked for, whatever it saves.
        forced=snapshot.stored.managed != bool(template) and bool(snapshot.stored.summary),
        request=request,
        # What a template makes is the whole of what is shown, as it says.
        ledger_tokens=0 if template else ledger_budget(snapshot, budget),
    )


def is_short(plan: Plan) -> bool:
    """Whether its summary may be as long as what it stands for: then it need save nothing."""
    if plan.request is None:
        return False
    covered = sum(group.tokens for group in plan.covered if not group.pinned)
    return plan.request.whole_tokens >= plan.snapshot.stored.tokens + covered


def _asked_tokens(snapshot: Snapshot, counter: Counter) -> int:
    """What the open requests in the context cost, with their images."""
    stated = snapshot.stored.requests
    return sum(counter.count(request_entry(each)) for each in stated) + images_tokens(
        stated, counter
    )


def _wanted(tokens: int) -> int:
    """Tokens of a summary that stands for so many."""
    return max(int(tokens * _SHARE), min(int(tokens * _SHORT_SHARE), _SHORT_TOKENS))


def _older(found: list[Group], keep_turns: int) -> tuple[Group, ...]:
    """The groups before the newest turns, as far as every call in them is answered."""
    kept = 0
    at = len(found)
    while at and kept < max(keep_turns, 1):
        at -= 1
        kept += len(found[at].turns)
    closed = next((n for n, group in enumerate(found[:at]) if not group.closed), at)
    return tuple(found[:closed])
