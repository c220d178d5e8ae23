"""From a plan to a draft that can be committed: ask for its summaries, splice, score."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Final, Protocol

import structlog

from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import InvalidTemplate, Transient, UnknownTemplate
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Billed, Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.marks import DATA, quoted_lines, unlabelled
from turnmill.contract.names import Seq
from turnmill.contract.policy import OFFLINE
from turnmill.contract.render import render_head
from turnmill.contract.shorten import shorten
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.items import Item, by_worth, carried, fitting, told
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.compaction.quality import Quality, Scorer
from turnmill_worker.compaction.splice import room_left, splice
from turnmill_worker.compaction.with_digest import digest_of, known_after, with_digest
from turnmill_worker.errors import (
    CircuitOpen,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryDeferred,
    SummaryRejected,
    UnusableSummary,
)
from turnmill_worker.ports.protocols import Summarizer, Summarizers
from turnmill_worker.ports.values import Summary
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.reading.plain_text import readable
from turnmill_worker.reading.requests import is_whole
from turnmill_worker.reading.score import stale
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
        statements: those that stand in it, with the request that each belongs to.
        items: what became of a model's statements; see ``Compaction.items``.
    """

    plan: Plan
    context: StoredContext
    summaries: tuple[Summary, ...]
    detail: bytes = b""
    quality: Quality | None = None
    rival: float = 0.0
    wasted: Spent = NOTHING
    failed: tuple[str, ...] = ()
    statements: tuple[tuple[int, Item], ...] = ()
    items: Mapping[str, int] = field(default_factory=dict)

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
        model = next((summary.model for summary in self.summaries), "")
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
            model=model,
            prompt_tokens=self.spent.prompt_tokens,
            completion_tokens=self.spent.completion_tokens,
            cost_usd=self.spent.cost_usd,
            billed=_billed(self.spent, model),
            failed=self.failed,
            items=dict(self.items),
            rules_added=len(rules - known),
            rules_ended=len(known - rules),
        )


def _billed(spent: Spent, wrote: str) -> dict[str, Billed]:
    """What each model was billed, if any was that did not write the summary."""
    parts: dict[str, Spent] = {}
    for name, part in spent.by_model.items():
        parts[name or wrote] = parts.get(name or wrote, NOTHING) + part
    if parts.keys() <= {wrote}:
        return {}
    return {name: Billed.model_validate(part, from_attributes=True) for name, part in parts.items()}


def cost_of(summary: Summary) -> Spent:
    """What one summary cost."""
    return Spent(
        prompt_tokens=summary.prompt_tokens,
        completion_tokens=summary.completion_tokens,
        cost_usd=summary.cost_usd,
    ).of(summary.model)


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
        *models, offline = self._summarizers(plan.snapshot.policy)
        twin = _Once(lambda: self._draft(plan, counter, offline, scorer))
        tries: list[Draft | Failure] = []
        work = partial(_prepare, plan, scorer, counter, twin)
        for summarizer in models:
            try:
                with done_while_waiting(work):
                    draft = self._draft(plan, counter, summarizer, scorer, twin)
            except (SummaryRejected, SummarizerFailed, Transient) as error:
                tries.append(error)
                continue
            tries.append(draft)
            if draft.is_good_enough or not plan.asks:
                return _chosen(tries)
        if patient and models:
            _defer(tries)
        try:
            tries.append(_carrying(twin(), counter, scorer) if models else twin())
        except (SummaryRejected, SummarizerFailed, Transient) as error:
            tries.append(error)
        return _chosen(tries)

    def _draft(
        self,
        plan: Plan,
        counter: Counter,
        summarizer: Summarizer,
        scorer: Scorer | None,
        twin: Callable[[], Draft] | None = None,
    ) -> Draft:
        """The context this plan leads to, with texts by this summarizer, scored.

        ``twin`` is the same by the offline summarizer. A context with a model's statements scores
        no less: those that say less than what they would stand in place of are left out.
        """
        template = self._template(plan)
        requests, before = plan.requests, plan.snapshot.before
        if template is not None:
            requests = tuple(fill(r, template, before, counter.count) for r in requests)
        summaries: tuple[Summary, ...] = ()
        try:
            for request in requests:
                summaries += (summarizer.summarize(request, counter),)
            made = _Made(plan, counter, scorer, requests, summaries)
            draft = made.with_items(_made_by(twin)) if made.items else made.draft()
        except (SummaryRejected, SummarizerFailed, SummarizerUnavailable) as error:
            error.spent = sum(map(cost_of, summaries), error.spent)
            raise
        goal = plan.snapshot.aim
        detail = detail_of(template, requests, draft.summaries, before, goal) if template else b""
        quality = made.with_text_alone(draft)
        return replace(
            draft, quality=quality, detail=detail, failed=self._failed if requests else ()
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


def _made_by(twin: Callable[[], Draft] | None) -> Draft | None:
    """The twin; None where nobody writes one that can be committed."""
    try:
        return twin() if twin else None
    except SummaryRejected:
        return None


def new_of(summary: Summary) -> Sequence[Item]:
    """The statements of a summary that did not stand before."""
    return summary.items[len(summary.items) - summary.added :]


class _Once:
    """Drafts once, when it is asked first, and gives everybody the same."""

    def __init__(self, draft: Callable[[], Draft]) -> None:
        self._draft = draft
        self._made: Draft | None = None

    def __call__(self) -> Draft:
        """The draft; errors as of ``Writer.best``."""
        self._made = self._made or self._draft()
        return self._made


def _carrying(draft: Draft, counter: Counter, scorer: Scorer | None) -> Draft:
    """The offline draft with the statements that models made before, as far as they have room."""
    requests = draft.plan.requests
    stood = [() if request.brief else tuple(carried(request)) for request in requests]
    if not any(stood):
        return draft
    summaries = [
        replace(summary, items=items) for summary, items in zip(draft.summaries, stood, strict=True)
    ]
    try:
        found = _Made(draft.plan, counter, scorer, requests, summaries).with_items(draft)
    except SummaryRejected:
        return draft
    return replace(found, failed=draft.failed)


_SHARE: Final = 0.5
"""Statements take this part of a text at most."""

_OWN_SHARE: Final = 0.2
"""So far on the way from the target to the soft limit a context may be larger for statements."""

_ENOUGH_TRIES, _SINGLE_TRIES = 4, 3
"""How many statements have room is tried so often: each try takes some milliseconds."""


class _Made:
    """What a summarizer wrote for a plan, and the drafts it can become.

    Attributes:
        items: its statements, with the request that each belongs to; those worth most first.
    """

    def __init__(
        self,
        plan: Plan,
        counter: Counter,
        scorer: Scorer | None,
        requests: Sequence[SummaryRequest],
        summaries: Sequence[Summary],
    ) -> None:
        self._plan, self._counter, self._scorer = plan, counter, scorer
        self._wide = plan
        self._summaries = summaries
        self._requests = [
            replace(request, digest=digest_of(request, counter)) if summary.items else request
            for request, summary in zip(requests, summaries, strict=True)
        ]
        self.items = [
            (at, item)
            for at, summary in enumerate(summaries)
            for item in self._current(summary.items)
        ]

    def with_items(self, twin: Draft | None) -> Draft:
        """The draft with as many statements as leave no less than the twin has.

        They have the room that it leaves of the goal, and some beyond it, so that they need not
        stand in place of passages.

        Raises:
            UnusableSummary: every one would leave less.
        """
        floor = twin.score if twin else 0.0
        ranked = self._ranked()
        if twin and self._plan.request:
            # Passages stand in the text itself: what would frame them beside it is room, too.
            own = self._counter.count(twin.context.summary)
            wide = self._with_room(ranked)
            wider = own + room_left(wide, twin.context)
            request = replace(self._plan.request, budget_tokens=wider, ledger_tokens=0)
            self._wide = replace(wide, request=request, ledger_tokens=0)
        best: Draft | None = None
        few, at, many, tries = 0, len(ranked), len(ranked), 0
        while few < many and (best is None or tries < _ENOUGH_TRIES):
            draft = self._tried(ranked[:at], floor)
            tries += 1
            best, few, many = (draft, at, many) if draft else (best, few, at - 1)
            at = (few + many + 1) // 2
        for one in ranked[1:_SINGLE_TRIES]:
            best = best or self._tried([one], floor)
        # A passage of which statements say nearly all may hold the rest: with room it stands, too.
        if ranked:
            chosen, least = (best.statements, best.score) if best else (tuple(ranked), floor)
            best = self._tried(chosen, least, beside_all=True) or best
        if best is not None:
            return best
        raise UnusableSummary("outweighed", kinds=("outweighed",), items=self._told([]))

    def _with_room(self, items: Sequence[tuple[int, Item]]) -> Plan:
        """The plan with a goal that has room for these, as far as it may be exceeded."""
        snapshot = self._plan.snapshot
        limits, wanted = snapshot.limits, sum(self._counter.count(own.line) + 1 for _, own in items)
        most = limits.target + int(_OWN_SHARE * (limits.soft - limits.target))
        goal = min(snapshot.aim + wanted, max(most, snapshot.aim))
        return replace(self._plan, snapshot=replace(snapshot, goal=goal))

    def _tried(
        self, items: Sequence[tuple[int, Item]], floor: float, *, beside_all: bool = False
    ) -> Draft | None:
        """The draft with these statements, if it can be committed and scores no less."""
        try:
            draft = self.draft(items, beside_all=beside_all)
        except SummaryRejected:
            return None
        return draft if draft.score >= floor else None

    def _ranked(self) -> list[tuple[int, Item]]:
        """The statements, those first that say most with each token, and a new one before all."""
        ranked = []
        for at, (request, summary) in enumerate(zip(self._requests, self._summaries, strict=True)):
            if request.digest is None:
                continue
            worths = request.digest.worths
            own = [item for place, item in self.items if place == at and item.words & worths.keys()]
            if own:
                best = by_worth(own, worths, self._counter.count)
                new = frozenset(new_of(summary))
                first = next((item for item in best if item in new), best[0])
                best = [first, *(item for item in best if item is not first)]
                room = int(request.whole_tokens * _SHARE)
                fit = fitting(best, room, self._counter.count)
                ranked.append([(at, item) for item in fit])
        return [item for row in zip_longest(*ranked) for item in row if item]

    def draft(self, items: Sequence[tuple[int, Item]] = (), *, beside_all: bool = False) -> Draft:
        """The draft with these statements, or with the texts as they were written; scored.

        ``beside_all`` leaves passages beside statements that say the same.
        """
        written = [
            self._text(at, [own for place, own in items if place == at], beside_all)
            for at in range(len(self._summaries))
        ]
        summaries = tuple(
            replace(summary, text=text)
            for summary, text in zip(self._summaries, written, strict=True)
        )
        texts = _texts(self._plan, self._requests, summaries, self._counter)
        context = splice(self._wide, texts, self._counter)
        quality = self._scorer.score(render_head(context)) if self._scorer else None
        return Draft(
            plan=self._plan,
            context=context,
            summaries=summaries,
            quality=quality,
            statements=tuple(items),
            items=self._told([own for _, own in items]),
        )

    def with_text_alone(self, draft: Draft) -> Quality | None:
        """A draft's score, and beside it that of what a model wrote, without passages."""
        models = [each for each in draft.summaries if each.model != OFFLINE]
        if draft.quality is None or self._scorer is None or not models:
            return draft.quality
        own = [each.text for each in models if not each.items]
        own += [told(item for _, item in draft.statements)]
        return replace(draft.quality, parts=draft.quality.parts | {"text": self._scorer.alone(own)})

    def _text(self, at: int, items: Sequence[Item], beside_all: bool) -> str:  # noqa: FBT001
        request, summary = self._requests[at], self._summaries[at]
        if not summary.items or request.digest is None:
            return _quoting(summary, request)
        if not items:
            return quoted_lines(request.digest.text(request.whole_tokens))
        own = unlabelled(told(items, brief=request.brief))
        room = request.whole_tokens - self._counter.count(own) - 1
        if at == 0 and self._wide.request and self._plan.request:
            room += self._wide.request.whole_tokens - self._plan.request.whole_tokens
        said = "" if beside_all else own
        beside = request.digest.rest_of(request.whole_tokens, said, room)
        return "\n".join(filter(None, (own, quoted_lines(beside))))

    def _current(self, items: Sequence[Item]) -> list[Item]:
        """The statements without those that a user's later words have changed."""
        changed = self._scorer.changed if self._scorer else {}
        return [item for item in items if not stale(item.text, changed)]

    def _told(self, kept: Sequence[Item]) -> dict[str, int]:
        """How many statements are kept, and how many are dropped for which reason."""
        new: list[Item] = []
        dropped = Tally[str]()
        for summary in self._summaries:
            new += new_of(summary)
            dropped.update(summary.dropped)
        if not new and not dropped:
            return {}
        current = sum(own in kept for own in new)
        dropped["outweighed"] += len(new) - current
        return {"kept": current, **{why: many for why, many in dropped.most_common() if many}}


def _prepare(
    plan: Plan, scorer: Scorer | None, counter: Counter, twin: Callable[[], Draft]
) -> None:
    """Do what does not need the model's answer: choose what is kept, read what may be lost."""
    known_after(plan, counter)
    if scorer is not None:
        _ = scorer.digest.units
    twin()


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
            others = [*tries[:at], *tries[at + 1 :]]
            failed = (*one.failed, *_why(tries[:at]))
            items = _items_of(others, one.items)
            return replace(one, rival=best, wasted=_spent(others), failed=failed, items=items)
    errors = [t for t in tries if not isinstance(t, Draft)]
    last = errors[-1]
    if isinstance(last, SummaryRejected):
        # The last summarizer is asked only when waiting is over: try the next rung.
        last.spent, last.failed, last.items = _spent(errors), _why(errors[:-1]), _items_of(errors)
        raise last
    raise next((e for e in errors if isinstance(e, Transient)), last)


def _why(tries: Sequence[Draft | Failure]) -> tuple[str, ...]:
    return tuple("below-quality" if isinstance(t, Draft) else _named(t) for t in tries)


def _named(error: Failure) -> str:
    """The kind of an error, and what was wrong with a model's answers."""
    name = type(error).__name__
    kinds = dict.fromkeys(error.kinds) if isinstance(error, UnusableSummary) else ()
    return f"{name}: {', '.join(kinds)}" if kinds else name


def _items_of(
    tries: Sequence[Draft | Failure], chosen: Mapping[str, int] | None = None
) -> dict[str, int]:
    """What became of all statements; of tries that were not chosen, none is kept."""
    found = Tally[str](chosen or {})
    for one in tries:
        own: Mapping[str, int] = getattr(one, "items", {})
        found.update({why: many for why, many in own.items() if why != "kept"})
    return dict(found)


def _spent(tries: Sequence[Draft | Failure]) -> Spent:
    told = (Draft, SummaryRejected, SummarizerFailed, SummarizerUnavailable)
    return sum((one.spent for one in tries if isinstance(one, told)), NOTHING)


def _quoting(summary: Summary, request: SummaryRequest) -> str:
    """A summary's text with nothing in it that reads as ours; what we write has labels of ours."""
    own = quoted_lines if summary.model == OFFLINE else unlabelled
    return _weighing_no_more(own(summary.text), request)


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
