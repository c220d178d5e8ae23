"""From a plan to a draft that can be committed: ask for its summaries, splice, score."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import structlog

from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import InvalidTemplate, Transient, UnknownTemplate
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.marks import DATA, quoted_lines, unlabelled
from turnmill.contract.names import Seq
from turnmill.contract.policy import OFFLINE
from turnmill.contract.render import render_head
from turnmill.contract.shorten import shorten
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.compaction.quality import Quality, Scorer
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.with_digest import known_after, with_digest
from turnmill_worker.errors import (
    CircuitOpen,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryDeferred,
    SummaryRejected,
)
from turnmill_worker.ports.protocols import Summarizer, Summarizers
from turnmill_worker.ports.values import Summary
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.reading.plain_text import readable
from turnmill_worker.reading.requests import is_whole
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.templates.fill import detail_of, fill
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.templates.template import Template

log = structlog.get_logger()

NEAR: Final = 0.75
"""A draft is good enough at this share of the best score that a later summarizer reached.

The score counts what can be read again word for word. A text in a model's own words keeps more than
that shows; a text that keeps nothing still stays far behind the extractive summarizer's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A context ready to be committed.

    Attributes:
        quality: None before it is scored, and where nothing was covered or shortened.
        detail: JSON about the managed view, or ``b""``.
        rival: the best score any summarizer reached for the same plan, or 0.
        wasted: spent on tries that led to nothing; the record includes it.
        failed: why summarizers tried before did not write it; see ``Compaction.failed``.
    """

    plan: Plan
    context: StoredContext
    summaries: tuple[Summary, ...]
    detail: bytes = b""
    quality: Quality | None = None
    rival: float = 0.0
    wasted: Spent = NOTHING
    failed: tuple[str, ...] = ()

    @property
    def spent(self) -> Spent:
        """All it cost."""
        return sum((cost_of(summary) for summary in self.summaries), self.wasted)

    @property
    def score(self) -> float:
        """The quality's score, or 1."""
        return 1.0 if self.quality is None else self.quality.score

    @property
    def is_good_enough(self) -> bool:
        """Whether this draft, or the rival it comes near, reaches the policy's threshold."""
        return max(self.score, self.rival) >= self.plan.snapshot.policy.quality_threshold

    @property
    def record(self) -> Compaction:
        """The compaction, as it is recorded and announced."""
        plan, context = self.plan, self.context
        before = plan.snapshot.before
        covered = [turn for group in plan.covered for turn in group.turns]
        after = plan.snapshot.usage
        kept = sum(t.tokens for t in plan.snapshot.turns if t.seq > context.watermark)
        known = {rule.id for rule in before.stored.rules}
        rules = {rule.id for rule in context.rules}
        return Compaction(
            session=before.session,
            version=context.version,
            strategy=plan.strategy,
            from_watermark=before.stored.watermark,
            watermark=context.watermark,
            turns=len(covered),
            elided=len(context.elisions),
            tokens_before=before.usage.total,
            tokens_after=replace(after, summary=context.tokens, tail=kept).total,
            last_seq=before.counted_seq,
            quality=None if self.quality is None else round(self.quality.score, 4),
            quality_parts={}
            if self.quality is None
            else {name: round(part, 4) for name, part in self.quality.parts.items()},
            model=next((summary.model for summary in self.summaries), ""),
            prompt_tokens=self.spent.prompt_tokens,
            completion_tokens=self.spent.completion_tokens,
            cost_usd=self.spent.cost_usd,
            failed=self.failed,
            rules_added=len(rules - known),
            rules_ended=len(known - rules),
        )


def cost_of(summary: Summary) -> Spent:
    """What one summary cost."""
    return Spent(
        prompt_tokens=summary.prompt_tokens,
        completion_tokens=summary.completion_tokens,
        cost_usd=summary.cost_usd,
    )


def scorer_of(plan: Plan, counter: Counter) -> Scorer | None:
    """Scores the contexts this plan may lead to; None when it covers nothing.

    What is only shortened is whole in the log, and a later summary is made from the whole.
    """
    if plan.digest is None or not plan.digest.covered:
        return None
    before = plan.snapshot.before
    kept = [turn for turn in plan.snapshot.turns if turn.seq > plan.cut]
    tracker = CallTracker.after(before.stored)
    heard = heard_in(before, counter)
    turns, wanted = before.counted_seq, before.policy.recent_turns_to_keep
    return Scorer(
        digest=plan.digest,
        before=[*render_head(before.stored), *(message for _, message in plan.records)],
        tail=[message for turn in kept for message in tracker.repair(turn.shown)],
        spoken=heard.spoken_last,
        changed=heard.changed_sentences(plan.cut),
        freshness=min(1.0, len(kept) / wanted) if wanted > 0 else 1.0,
        session=1.0 - min(1.0, before.compactions / turns) if turns > 0 else 1.0,
        weights=before.policy.quality_weights,
        threshold=before.policy.quality_threshold,
    )


Failure = SummaryRejected | SummarizerFailed | Transient


@dataclass(frozen=True, slots=True)
class Later:
    """The summary is not there yet: look again after that many seconds."""

    after_s: float


class DraftWriter(Protocol):
    """Writes what a plan asks for."""

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft | Later:
        """A draft, or when to look for it; errors as of ``Writer.best``."""


class Writer:
    """Writes drafts with the policy's summarizers and its templates."""

    def __init__(
        self, summarizers: Summarizers, templates: TemplateLoader, *, failed: tuple[str, ...] = ()
    ) -> None:
        """``failed`` says why other summarizers did not write; see ``Compaction.failed``."""
        self._summarizers = summarizers
        self._templates = templates
        self._failed = failed

    def without_models(self) -> Writer:
        """A writer that asks no model, because the session changes while one writes."""
        return Writer(
            lambda policy: self._summarizers(policy)[-1:], self._templates, failed=("stale",)
        )

    def led_by(self, summarizer: Summarizer) -> Writer:
        """A writer that asks this summarizer in place of the policy's first."""
        return Writer(lambda policy: [summarizer, *self._summarizers(policy)[1:]], self._templates)

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft:
        """The first draft that is good enough, or that comes near the best one.

        Raises:
            SummaryDeferred: all models fail for now; only if the caller is ``patient``.
            SummaryRejected: none wrote anything that can be committed.
            Transient: all failed, at least one of them for a reason that may pass.
        """
        plan = with_digest(plan, counter)
        # One scorer for all summarizers: they are measured by the same turns.
        scorer = scorer_of(plan, counter)
        tries: list[Draft | Failure] = []
        summarizers = self._summarizers(plan.snapshot.policy)
        for at, summarizer in enumerate(summarizers, 1):
            # The last one asks no model, and waits for nothing.
            is_last = at == len(summarizers)
            if patient and is_last:
                _defer(tries)
            work = partial(_prepare, plan, scorer, counter)
            ahead = nullcontext() if is_last else done_while_waiting(work)
            try:
                with ahead:
                    draft = self._draft(plan, counter, summarizer)
            except (SummaryRejected, SummarizerFailed, Transient) as error:
                tries.append(error)
                continue
            if scorer is not None:
                draft = replace(draft, quality=scorer.score(render_head(draft.context)))
            tries.append(draft)
            if draft.is_good_enough or not plan.requests:
                break
        return _chosen(tries)

    def _draft(self, plan: Plan, counter: Counter, summarizer: Summarizer) -> Draft:
        """The context this plan leads to, with texts by this summarizer; not scored yet."""
        template = self._template(plan)
        requests, before = plan.requests, plan.snapshot.before
        if template is not None:
            requests = tuple(fill(r, template, before, counter.count) for r in requests)
        summaries: tuple[Summary, ...] = ()
        try:
            for request in requests:
                summaries += (_quoting(summarizer.summarize(request, counter), request),)
            context = splice(plan, _texts(plan, requests, summaries, counter), counter)
        except (SummaryRejected, SummarizerFailed, SummarizerUnavailable) as error:
            error.spent = sum(map(cost_of, summaries), error.spent)
            raise
        goal = plan.snapshot.aim
        detail = detail_of(template, requests, summaries, before, goal) if template else b""
        return Draft(
            plan=plan,
            context=context,
            summaries=summaries,
            detail=detail,
            failed=self._failed if requests else (),
        )

    def check(self, template: str) -> None:
        """Check that the template can be used, if one is named.

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
            log.warning("template not used", template=name, why=type(error).__name__)
            raise SummaryRejected(str(error)) from error


def _prepare(plan: Plan, scorer: Scorer | None, counter: Counter) -> None:
    """Do what does not need the model's answer: choose what is kept, read what may be lost."""
    known_after(plan, counter)
    if scorer is not None:
        _ = scorer.digest.units


def _defer(tries: Sequence[Draft | Failure]) -> None:
    """Raise ``SummaryDeferred`` if every try failed for a passing reason and no circuit is open."""
    if not tries or any(isinstance(t, CircuitOpen) or not isinstance(t, Transient) for t in tries):
        return
    waits = [t.retry_after_s for t in tries if isinstance(t, SummarizerUnavailable)]
    known = [wait for wait in waits if wait is not None]
    deferred = SummaryDeferred(_why(tries), retry_after_s=min(known, default=None))
    deferred.spent = _spent(tries)
    raise deferred


def _chosen(tries: Sequence[Draft | Failure]) -> Draft:
    """The first draft that comes near the best one, with what came before it.

    Raises:
        SummaryRejected, SummarizerFailed, Transient: there is none.
    """
    best = max((t.score for t in tries if isinstance(t, Draft)), default=0.0)
    for at, one in enumerate(tries):
        if isinstance(one, Draft) and one.score >= NEAR * best:
            wasted = _spent([*tries[:at], *tries[at + 1 :]])
            failed = (*one.failed, *_why(tries[:at]))
            return replace(one, rival=best, wasted=wasted, failed=failed)
    errors = [t for t in tries if not isinstance(t, Draft)]
    last = errors[-1]
    if isinstance(last, SummaryRejected):
        # The last summarizer is asked only when waiting is over: try the next rung.
        last.spent = _spent(errors)
        raise last
    raise next((e for e in errors if isinstance(e, Transient)), last)


def _why(tries: Sequence[Draft | Failure]) -> tuple[str, ...]:
    return tuple("below-quality" if isinstance(t, Draft) else type(t).__name__ for t in tries)


def _spent(tries: Sequence[Draft | Failure]) -> Spent:
    told = (Draft, SummaryRejected, SummarizerFailed, SummarizerUnavailable)
    return sum((one.spent for one in tries if isinstance(one, told)), NOTHING)


def _quoting(summary: Summary, request: SummaryRequest) -> Summary:
    """The summary with nothing in its text that reads as ours; what we write has labels of ours."""
    own = quoted_lines if summary.model == OFFLINE else unlabelled
    text = own(summary.text)
    return replace(summary, text=_weighing_no_more(text, request))


def _weighing_no_more(text: str, request: SummaryRequest) -> str:
    """A text to a template with what it is above it: a managed view becomes a system message."""
    return f"{DATA}\n{text}" if request.template and text.strip() else text


def _texts(
    plan: Plan, requests: Sequence[SummaryRequest], summaries: Sequence[Summary], counter: Counter
) -> list[str]:
    """The answers to the requests; for some that are empty, what their turns say.

    An event's, one from turns all of whose words that count stand among the requests, and one that
    is wanted for another reason than tokens.
    """
    texts = [summary.text for summary in summaries]
    for at, request in enumerate(requests):
        is_event = at >= len(texts) - len(plan.wanted)
        is_wanted = summaries[at].model == OFFLINE and (bool(request.asked) or plan.forced)
        if not texts[at].strip() and (is_event or is_wanted):
            stated = (
                {each.seq for each in request.asked if is_whole(each)} if not is_event else set()
            )
            records = [record for record in request.records if record[0] not in stated]
            told = _told(records, request.budget_tokens, counter)
            texts[at] = _weighing_no_more(told, request)
    return texts


def _told(records: Sequence[tuple[Seq, JsonMessage]], tokens: int, counter: Counter) -> str:
    quoted: JsonMessage = {"role": "user", "content": readable(records)}
    found = shorten([quoted], tokens, counter.count_messages, whole_lines=True)
    return "".join(quoted_lines(message["content"]) for message in found or ())
