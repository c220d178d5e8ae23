"""From a plan to a context that can be committed: ask for its summaries, splice, score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTemplate, Transient, UnknownTemplate
from turnmill.contract.render import render_head
from turnmill.contract.shorten import shorten
from turnmill_worker.compaction.apart import with_facts
from turnmill_worker.compaction.readable import readable
from turnmill_worker.compaction.snapshot import (
    Count,
    Plan,
    Snapshot,
)
from turnmill_worker.compaction.splice import splice
from turnmill_worker.drafts import NEAR, Draft, cost_of, scorer_of
from turnmill_worker.errors import (
    CircuitOpen,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryDeferred,
    SummaryRejected,
)
from turnmill_worker.filling import detail_of, filled
from turnmill_worker.meanwhile import meanwhile
from turnmill_worker.ports import Counter, Summarizer, Summarizers, Templates
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.templates.template import Template
from turnmill_worker.values import Summary

__all__ = ["Writer"]


Failure = SummaryRejected | SummarizerFailed | Transient


class Writer:
    """Writes drafts with the policy's summarizers and its templates."""

    def __init__(self, summarizers: Summarizers, templates: Templates) -> None:
        self._summarizers = summarizers
        self._templates = templates

    def hasty(self) -> Writer:
        """A writer that asks no model."""
        return Writer(lambda policy: self._summarizers(policy)[-1:], self._templates)

    def best(
        self,
        snapshot: Snapshot,
        plan: Plan,
        counter: Counter,
        count: Count,
        *,
        patient: bool = False,
    ) -> tuple[Draft, tuple[str, ...]]:
        """The first summarizer's draft that is good enough, or comes near the best there is.

        And the kinds of errors of those that failed on the way.

        Raises:
            SummaryDeferred: all models fail for now; only to who is ``patient``.
            SummaryRejected: none wrote anything that can be committed.
            Transient: all failed, the last one too for a reason that may pass.
        """
        plan = with_facts(plan, counter.count)
        drafts: list[Draft] = []
        errors: list[Failure] = []
        summarizers = self._summarizers(snapshot.policy)
        for at, summarizer in enumerate(summarizers, 1):
            if patient and at == len(summarizers) and errors and not drafts:
                _defer(errors)
            try:
                drafts.append(self._draft(snapshot, plan, counter, count, summarizer))
            except (SummaryRejected, SummarizerFailed, Transient) as error:
                errors.append(error)
                continue
            if drafts[-1].is_good_enough or not plan.requests:
                break
        wasted = _wasted(errors)
        if drafts:
            best = max(draft.score for draft in drafts)
            chosen = next(draft for draft in drafts if draft.score >= NEAR * best)
            wasted = sum((draft.spent for draft in drafts if draft is not chosen), wasted)
            return replace(chosen, rival=best, wasted=wasted), _kinds(errors)
        last = errors[-1]
        if isinstance(last, SummaryRejected):
            # Who comes last is asked when waiting is over: try the next rung.
            last.spent = wasted
            raise last
        raise next((e for e in errors if isinstance(e, Transient)), last)

    def _draft(
        self,
        snapshot: Snapshot,
        plan: Plan,
        counter: Counter,
        count: Count,
        summarizer: Summarizer,
    ) -> Draft:
        """The context this plan leads to, with texts by this summarizer."""
        template = self._template(plan)
        requests = [filled(request, template, snapshot) for request in plan.requests]
        summaries: tuple[Summary, ...] = ()
        scorer = cache(partial(scorer_of, snapshot, plan))
        try:
            with meanwhile(scorer):
                for request in requests:
                    summaries += (summarizer.summarize(request, counter),)
            context = splice(plan, _texts(plan, summaries, count), count)
        except (SummaryRejected, SummarizerFailed, SummarizerUnavailable) as error:
            error.spent = sum(map(cost_of, summaries), error.spent)
            raise
        goal = plan.snapshot.aim
        detail = detail_of(template, requests, summaries, snapshot, goal) if template else b""
        made = scorer()
        return Draft(
            before=snapshot,
            plan=plan,
            context=context,
            summaries=summaries,
            quality=None if made is None else made.score(render_head(context)),
            detail=detail,
        )

    def check(self, template: str) -> None:
        """Return when a template can be used, or none is named.

        Raises:
            InvalidName, UnknownTemplate, InvalidTemplate: it cannot.
        """
        if template:
            self._templates.load(template)

    def _template(self, plan: Plan) -> Template | None:
        name = plan.request.template if plan.request else ""
        try:
            return self._templates.load(name) if name else None
        except (UnknownTemplate, InvalidTemplate) as error:
            # Fail open: an agent's turn does not wait for somebody to mend a file.
            raise SummaryRejected(str(error)) from error


def _defer(errors: Sequence[Failure]) -> None:
    """Raise where each of them passes, and none says that it is no use to wait for it."""
    if any(isinstance(e, CircuitOpen) or not isinstance(e, Transient) for e in errors):
        return
    waits = [e.retry_after_s for e in errors if isinstance(e, SummarizerUnavailable)]
    known = [wait for wait in waits if wait is not None]
    deferred = SummaryDeferred(_kinds(errors), retry_after_s=min(known, default=None))
    deferred.spent = _wasted(errors)
    raise deferred


def _kinds(errors: Sequence[Failure]) -> tuple[str, ...]:
    return tuple(type(e).__name__ for e in errors if not isinstance(e, SummaryRejected))


def _wasted(errors: Sequence[Failure]) -> Spent:
    told = (SummaryRejected, SummarizerFailed, SummarizerUnavailable)
    return sum((error.spent for error in errors if isinstance(error, told)), NOTHING)


def _texts(plan: Plan, summaries: Sequence[Summary], count: Count) -> list[str]:
    """The answers to the plan's requests; an event nobody had a word for quotes its turns."""
    texts = [summary.text for summary in summaries]
    for at in range(len(texts) - len(plan.wanted), len(texts)):
        if not texts[at].strip():
            request = plan.requests[at]
            quoted: JsonMessage = {"role": "user", "content": readable(request.records)}
            for message in shorten([quoted], request.budget_tokens, count) or ():
                texts[at] = message["content"]
    return texts
