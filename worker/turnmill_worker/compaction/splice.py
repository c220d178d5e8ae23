"""Building the new context from snapshot, plan and text: pure, and refused when it is bad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmill.contract.context import PinnedTurn, StoredContext
from turnmill.contract.estimate import Counter
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.marks import quoted_lines
from turnmill.contract.names import Version
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Plan, SummaryRequest, previous_text
from turnmill_worker.errors import SummaryRejected


def splice(plan: Plan, texts: Sequence[str], counter: Counter) -> StoredContext:
    """The context to commit; ``texts`` are the summarizer's answers to ``plan.requests``.

    Raises:
        SummaryRejected: a text is empty or over its budget, or the context would miss the plan's
            goal or be refused by a provider. Nothing bad is ever committed.
    """
    answers = zip(texts, plan.requests, strict=True)
    accepted = [_accepted(text, request, counter) for text, request in answers]
    summary = accepted.pop(0) if plan.request is not None else plan.summary
    events = list(plan.events)
    for (at, _), text in zip(plan.wanted, accepted, strict=True):
        events[at] = events[at].model_copy(update={"text": text})
    stored = plan.snapshot.stored
    draft = StoredContext(
        version=Version(stored.version + 1),
        watermark=plan.cut,
        summary=summary,
        pins=(*stored.pins, *_pins(plan)),
        elisions=tuple(e for e in stored.elisions if e.seq > plan.cut),
        receipts=plan.receipts,
        strategy=plan.strategy,
        events=tuple(events),
        managed=plan.managed and bool(summary),
        rules=plan.rules,
        requests=plan.asked,
        calls=plan.calls,
        recall=stored.recall,
        **stored.unknown,
    )
    draft = draft.model_copy(update={"ledger": _ledger(plan, draft, counter)})
    context = draft.model_copy(update={"tokens": counter.count_messages(render_head(draft))})
    return _checked(plan, context)


def _pins(plan: Plan) -> Iterator[PinnedTurn]:
    """The pinned turns that are covered, legal together wherever they stand."""
    tracker = CallTracker()  # a group is whole, so each starts with no call open
    for group in plan.covered:
        for turn in group.turns if group.pinned else ():
            messages = tuple(tracker.repair(turn.shown))
            yield PinnedTurn(seq=turn.seq, messages=messages)


def _accepted(text: str, request: SummaryRequest, counter: Counter) -> str:
    if not text.strip():
        raise SummaryRejected("empty")
    tokens = counter.count_messages([{"role": "user", "content": text}])
    if tokens > request.whole_tokens + _FRAME_TOKENS:
        raise SummaryRejected(f"{tokens} tokens, allowed {request.whole_tokens}")
    return text


_FRAME_TOKENS = 4
"""What a bare user message costs beside its text."""


_SLACK_TOKENS = 4
"""Passages may tokenize a little differently behind a summary than alone."""

_LEAST_LEDGER_TOKENS = 24
"""Room for fewer is left: a passage needs as many with what opens its line."""


def _ledger(plan: Plan, draft: StoredContext, counter: Counter) -> str:
    """Original passages beside the summary, for what it does not say itself."""
    request, digest = plan.request, plan.digest
    if not plan.covered or (request is None and not plan.ledger_tokens):
        # No room was set apart: what was shown so far stays.
        return plan.snapshot.stored.ledger
    if digest is None or not plan.ledger_tokens:
        return ""
    prose = previous_text(draft)
    most = plan.ledger_tokens if request is None else request.whole_tokens - counter.count(prose)
    framed = draft.model_copy(update={"ledger": "…"})
    left = _most(plan) - _total(plan, counter.count_messages(render_head(framed))) - _SLACK_TOKENS
    room = min(most, left)
    if room < _LEAST_LEDGER_TOKENS:
        return ""
    return quoted_lines(digest.beside(prose, room))


def _most(plan: Plan) -> int:
    """Most tokens the context may have: below the goal, and fewer than before."""
    snapshot = plan.snapshot
    if plan.covered and not plan.forced:
        return min(snapshot.aim, snapshot.usage.total - 1)
    return snapshot.aim


def room_left(plan: Plan, context: StoredContext) -> int:
    """Tokens that a context which was built from this plan leaves of its goal."""
    return max(_most(plan) - _total(plan, context.tokens) - _SLACK_TOKENS, 0)


def _total(plan: Plan, head_tokens: int) -> int:
    usage = plan.snapshot.usage
    kept = sum(turn.tokens for turn in plan.snapshot.turns if turn.seq > plan.cut)
    return usage.system + usage.pending + usage.REPLY + head_tokens + kept


def _checked(plan: Plan, context: StoredContext) -> StoredContext:
    goal, before = plan.snapshot.aim, plan.snapshot.usage.total
    total = _total(plan, context.tokens)
    if total > goal:
        raise SummaryRejected(f"{total} tokens, the goal is {goal}")
    if total > _most(plan):
        raise SummaryRejected(f"{total} tokens, no fewer than the {before} before")
    if not set(plan.rules) <= set(context.rules):
        raise SummaryRejected("a rule in force would be lost")
    if context.requests != plan.asked:
        raise SummaryRejected("an open request would be lost")
    if violations(render_head(context)):
        raise SummaryRejected("a provider would refuse the context")
    return context
