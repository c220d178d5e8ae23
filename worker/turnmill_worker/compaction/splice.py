"""Building the new context from snapshot, plan and text: pure, and refused when it is bad."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import PinnedTurn, StoredContext
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.names import Version
from turnmill.contract.render import render_head
from turnmill_worker.compaction.snapshot import Count, Plan, SummaryRequest
from turnmill_worker.errors import SummaryRejected

__all__ = ["splice"]


def splice(plan: Plan, texts: Sequence[str], count: Count) -> StoredContext:
    """The context to commit; ``texts`` are the summarizer's answers to ``plan.requests``.

    Raises:
        SummaryRejected: a text is empty or over its budget, or the context would miss the plan's
            goal or be refused by a provider. Nothing bad is ever committed.
    """
    accepted = [
        _accepted(text, request, count) for text, request in zip(texts, plan.requests, strict=True)
    ]
    summary = accepted.pop(0) if plan.request is not None else plan.summary
    events = list(plan.events)
    for (at, _), text in zip(plan.wanted, accepted, strict=True):
        events[at] = events[at].model_copy(update={"text": text})
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
        events=tuple(events),
        managed=plan.managed and bool(summary),
    )
    context = draft.model_copy(update={"tokens": count(render_head(draft))})
    _check(plan, context)
    return context


def _accepted(text: str, request: SummaryRequest, count: Count) -> str:
    if not text.strip():
        raise SummaryRejected("empty")
    tokens = count([{"role": "user", "content": text}])
    if tokens > request.budget_tokens + _FRAME_TOKENS:
        raise SummaryRejected(f"{tokens} tokens, allowed {request.budget_tokens}")
    return text


_FRAME_TOKENS = 4
"""What a bare user message costs beside its text."""


def _check(plan: Plan, context: StoredContext) -> None:
    snapshot = plan.snapshot
    kept = [turn for turn in snapshot.turns if turn.seq > context.watermark]
    usage = snapshot.usage
    total = usage.system + usage.pending + usage.REPLY + context.tokens
    total += sum(turn.tokens for turn in kept)
    if total > snapshot.aim:
        raise SummaryRejected(f"{total} tokens, the goal is {snapshot.aim}")
    covers = context.watermark > snapshot.stored.watermark
    if total >= usage.total and covers and not plan.forced:
        raise SummaryRejected(f"{total} tokens, no fewer than the {usage.total} before")
    if violations(render_head(context)):
        raise SummaryRejected("a provider would refuse the context")
