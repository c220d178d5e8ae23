"""What a plan's texts are chosen from: the turns it covers, and what is known of those before."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from turnmill.contract.context import SummaryEvent
from turnmill.contract.estimate import Counter
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import Plan, SummaryRequest, sent_context
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.rolling import summary_budget
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.known import Known
from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.readings import Readings, of_summary
from turnmill_worker.reading.said import Said


def with_digest(plan: Plan, counter: Counter) -> Plan:
    """The plan with what its texts and the next compaction's are chosen from."""
    if not plan.covered:
        return plan
    digest = heard_in(plan.snapshot, counter).digest(
        [turn for group in plan.covered if not group.pinned for turn in group.turns],
        through=plan.cut,
        rules=plan.rules,
        requests=plan.asked,
        previous=plan.snapshot.stored.summary,
    )
    request = plan.request
    if request and not plan.managed:  # a template says itself what a managed view is made from
        sent = sent_context(plan.snapshot.before)
        request = replace(request, digest=digest, context=sent)
    return replace(
        plan,
        digest=digest,
        request=request,
        wanted=tuple(
            (at, _folded(each, plan.events[at], plan.snapshot, counter)) for at, each in plan.wanted
        ),
    )


def known_after(plan: Plan, counter: Counter) -> Known:
    """What is kept beside the context that the plan leads to."""
    if plan.digest is None:
        return plan.snapshot.known
    budget = plan.request.whole_tokens if plan.request else 0
    budget = budget or summary_budget(plan.snapshot, counter.count)
    return plan.digest.after(budget)


def digest_of(request: SummaryRequest, counter: Counter, known: Known | None = None) -> Digest:
    """What a request's text is chosen from: its own digest, or its records and the text before."""
    if request.digest is not None:
        return request.digest
    readings = Readings(counter.count, counter.basis)
    if known is None:
        known = Known(readings=tuple(of_summary(request.previous, counter.count)))
    covered: list[Reading] = []
    said, before = Said(known.said), None
    for seq, own in groupby(request.records, key=itemgetter(0)):
        messages = [message for _, message in own]
        turn = readings.of_turn(seq, messages, before)
        said.hear(seq, turn, messages)
        covered += turn
        before = messages[-1]
    through = max((seq for seq, _ in request.records), default=0)
    return Digest(known, covered, counter.count, through=through, said=said)


def _folded(
    request: SummaryRequest, event: SummaryEvent, snapshot: Snapshot, counter: Counter
) -> SummaryRequest:
    """A request for an event; one that folds older events is chosen from what they stood for."""
    known = snapshot.known.between(event.first_seq, event.last_seq)
    if not request.previous or not known.readings:
        return request
    return replace(request, digest=digest_of(request, counter, known))
