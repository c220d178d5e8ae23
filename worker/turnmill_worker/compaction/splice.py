"""Building the new context from snapshot, plan and text: pure, and refused when it is bad."""

from __future__ import annotations

from turnmill.contract.context import PinnedTurn, StoredContext
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.names import Version
from turnmill.contract.render import render_head
from turnmill_worker.compaction.snapshot import Count, Plan
from turnmill_worker.errors import SummaryRejected

__all__ = ["splice"]


def splice(plan: Plan, text: str, count: Count) -> StoredContext:
    """The context to commit; ``text`` is the summarizer's answer when the plan requested one.

    Raises:
        SummaryRejected: the text is empty or over its budget, or the context would miss the
            policy's target or be refused by a provider. Nothing bad is ever committed.
    """
    summary = plan.summary
    if plan.request is not None:
        summary = _accepted(text, plan, count)
    stored = plan.snapshot.stored
    tracker = CallTracker()  # a group is whole, so each starts with no call open
    pins = [
        PinnedTurn(seq=turn.seq, messages=tuple(tracker.repair(turn.shown)))
        for group in plan.covered
        if group.pinned
        for turn in group.turns
    ]
    draft = StoredContext(
        version=Version(stored.version + 1),
        watermark=plan.cut,
        summary=summary,
        pins=(*stored.pins, *pins),
        elisions=tuple(e for e in stored.elisions if e.seq > plan.cut),
        receipts=plan.receipts,
        strategy=plan.strategy,
    )
    context = draft.model_copy(update={"tokens": count(render_head(draft))})
    _check(plan, context)
    return context


def _accepted(text: str, plan: Plan, count: Count) -> str:
    assert plan.request is not None  # noqa: S101 - narrows the type; callers checked
    if not text.strip():
        raise SummaryRejected("empty")
    tokens = count([{"role": "user", "content": text}])
    if tokens > plan.request.budget_tokens + _FRAME_TOKENS:
        raise SummaryRejected(f"{tokens} tokens, allowed {plan.request.budget_tokens}")
    return text


_FRAME_TOKENS = 4
"""What a bare user message costs beside its text."""


def _check(plan: Plan, context: StoredContext) -> None:
    snapshot = plan.snapshot
    kept = [turn for turn in snapshot.turns if turn.seq > context.watermark]
    usage = snapshot.usage
    total = usage.system + usage.pending + usage.REPLY + context.tokens
    total += sum(turn.tokens for turn in kept)
    if total > snapshot.limits.target:
        raise SummaryRejected(f"{total} tokens, the target is {snapshot.limits.target}")
    if total >= usage.total and context.watermark > snapshot.stored.watermark:
        raise SummaryRejected(f"{total} tokens, no fewer than the {usage.total} before")
    if violations(render_head(context)):
        raise SummaryRejected("a provider would refuse the context")
