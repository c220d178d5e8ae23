"""The rolling summary: one text stands for all turns up to the cut, and grows no longer."""

from __future__ import annotations

from turnmill.contract.context import PinnedTurn, StoredContext
from turnmill.contract.estimate import Counter, CountText
from turnmill.contract.render import render_head, request_entry
from turnmill_worker.compaction.plan import (
    Group,
    Plan,
    SummaryRequest,
    choose_cut,
    groups,
    previous_text,
    records_of,
)
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.registry import Covers, register

_SLACK_TOKENS = 8
"""A text may tokenize a little differently beside its frame than alone."""


def room_beside(plan: Plan, frame: StoredContext, counter: Counter) -> int:
    """Tokens left under the plan's goal beside the turns that stay, all pins, and this frame."""
    snapshot = plan.snapshot
    pins = [*snapshot.stored.pins]
    for group in plan.covered:
        if group.pinned:
            pins += [PinnedTurn(seq=turn.seq, messages=turn.shown) for turn in group.turns]
    head = render_head(frame.model_copy(update={"pins": tuple(pins)}))
    kept = sum(turn.tokens for turn in snapshot.turns if turn.seq > plan.cut)
    usage = snapshot.usage
    fixed = usage.system + usage.pending + usage.REPLY + kept + counter.count_messages(head)
    return snapshot.aim - fixed - _SLACK_TOKENS


SHARES = (1.0, 0.5, 0.25, 0.125)
"""Shares of the summary's budget, tried in turn."""

_SHORT_SHARE = 0.25
"""Share of the summary's budget that it keeps where the newest turn alone is too large."""

_LEAST_TOKENS = 32
"""A summary shorter than this says nothing."""

"""A text may tokenize a little differently beside its frame than alone."""


def summary_budget(snapshot: Snapshot, count: CountText) -> int:
    """Most tokens a summary and the ledger beside it may have under the session's policy.

    The requests in the context take half of their room from it, but never more than its half.
    """
    most = int(snapshot.limits.room * snapshot.policy.summary_ratio)
    asked = sum(count(request_entry(request)) for request in snapshot.stored.requests)
    return most - min(asked, most) // 2


def ledger_budget(snapshot: Snapshot, tokens: int) -> int:
    """How many of a summary's tokens are set apart for the ledger."""
    return int(tokens * snapshot.policy.ledger_ratio)


def rolling_budget(snapshot: Snapshot, counter: Counter) -> int:
    """Most tokens for turns kept word for word, under the target and beside a short summary."""
    short = int(summary_budget(snapshot, counter.count) * _SHORT_SHARE)
    return beside_summary(snapshot, counter) - short


def rolling(snapshot: Snapshot, counter: Counter) -> Plan | None:
    """Cover the oldest turns with a summary that also replaces the previous one.

    The tail keeps as many turns as the target leaves room for. Where turns that must stay leave
    less, the summary is shorter: a short one is worth more than none. None when no cut reaches
    the target.
    """
    found = groups(snapshot)
    room, most = beside_summary(snapshot, counter), summary_budget(snapshot, counter.count)
    for share in SHARES:
        tokens = int(most * share)
        at = choose_cut(
            found,
            room - tokens,
            pending=bool(snapshot.pending_messages),
            most_interactions=snapshot.policy.max_interactions,
        )
        if at and tokens >= _LEAST_TOKENS:
            # Turns are covered whole: what the cut leaves of the target is the summary's, too.
            kept = sum(group.tokens for n, group in enumerate(found) if n >= at or group.pinned)
            left = room - kept - max(snapshot.aim - snapshot.limits.target, 0)
            # A count that asks for a summary makes it no longer than the target would.
            least = max(int(most * SHARES[-1]), _LEAST_TOKENS)
            return _plan(snapshot, tuple(found[:at]), max(left, min(tokens, least)))
    return None


def beside_summary(snapshot: Snapshot, counter: Counter) -> int:
    """Tokens left under the target for a summary and for turns kept word for word."""
    usage = snapshot.usage
    frame = snapshot.stored.model_copy(
        update={
            "summary": "…",
            "watermark": snapshot.counted_seq,
            "events": (),
            "managed": False,
            "ledger": "…" if snapshot.policy.ledger_ratio else "",
        }
    )
    head = counter.count_messages(render_head(frame))
    fixed = usage.system + usage.pending + usage.REPLY + head
    return snapshot.aim - fixed - _SLACK_TOKENS


def _plan(snapshot: Snapshot, covered: tuple[Group, ...], budget_tokens: int) -> Plan:
    records = records_of(covered)
    return Plan(
        strategy="rolling",
        snapshot=snapshot,
        covered=covered,
        records=records,
        receipts=snapshot.stored.receipts,
        request=SummaryRequest(
            previous=previous_text(snapshot.stored),
            records=records,
            budget_tokens=budget_tokens,
        ),
        ledger_tokens=ledger_budget(snapshot, budget_tokens),
    )


register("rolling", Covers(rolling, budget=rolling_budget))
