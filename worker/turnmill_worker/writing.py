"""From a plan to a context that can be committed: ask for its summaries, splice, score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import InvalidTemplate, Transient, UnknownTemplate
from turnmill.contract.legality import CallTracker
from turnmill.contract.memories import is_memories
from turnmill.contract.names import Seq
from turnmill.contract.outcomes import Compaction
from turnmill.contract.render import render_head
from turnmill.contract.shorten import shorten
from turnmill_worker.compaction.apart import with_facts
from turnmill_worker.compaction.quality import Quality, score
from turnmill_worker.compaction.readable import readable
from turnmill_worker.compaction.snapshot import (
    Count,
    LoggedTurn,
    Plan,
    Snapshot,
    SummaryRequest,
    records,
)
from turnmill_worker.compaction.splice import splice
from turnmill_worker.errors import (
    CircuitOpen,
    SummarizerFailed,
    SummarizerUnavailable,
    SummaryDeferred,
    SummaryRejected,
)
from turnmill_worker.ports import Counter, Summarizer, Summarizers, Templates
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.templates.answers import parse_output, sections_found
from turnmill_worker.templates.template import Template, render
from turnmill_worker.values import Summary

__all__ = ["Draft", "Writer"]


Failure = SummaryRejected | SummarizerFailed | Transient


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A context ready to be committed.

    Attributes:
        before: the snapshot the plan was made from.
        quality: None when nothing was covered or shortened.
        detail: JSON about the managed view, or ``b""``.
        wasted: by tries that led to nothing; the record counts it in.
    """

    before: Snapshot
    plan: Plan
    context: StoredContext
    summaries: tuple[Summary, ...]
    quality: Quality | None
    detail: bytes
    wasted: Spent = NOTHING

    @property
    def spent(self) -> Spent:
        """All it cost."""
        return sum((_cost(summary) for summary in self.summaries), self.wasted)

    @property
    def score(self) -> float:
        """The quality's, or 1."""
        return 1.0 if self.quality is None else self.quality.score

    @property
    def is_good_enough(self) -> bool:
        """Whether it reaches the policy's threshold."""
        return self.score >= self.before.policy.quality_threshold

    @property
    def record(self) -> Compaction:
        """The compaction, as it is recorded and announced."""
        before, plan, context = self.before, self.plan, self.context
        covered = [turn for group in plan.covered for turn in group.turns]
        after = plan.snapshot.usage
        kept = sum(t.tokens for t in plan.snapshot.turns if t.seq > context.watermark)
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
        )


class Writer:
    """Writes drafts with the policy's summarizers and its templates."""

    def __init__(self, summarizers: Summarizers, templates: Templates) -> None:
        self._summarizers = summarizers
        self._templates = templates

    def best(
        self,
        snapshot: Snapshot,
        plan: Plan,
        counter: Counter,
        count: Count,
        *,
        patient: bool = False,
    ) -> tuple[Draft, tuple[str, ...]]:
        """The first summarizer's draft that is good enough, else the best there is.

        And the kinds of errors of those that failed on the way.

        Raises:
            SummaryDeferred: all models fail for now; only to who is ``patient``.
            SummaryRejected: none wrote anything that can be committed.
            Transient: all failed, and one of them for a reason that may pass.
        """
        plan = with_facts(plan, count)
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
            chosen = max(drafts, key=lambda draft: draft.score)
            wasted = sum((draft.spent for draft in drafts if draft is not chosen), wasted)
            return replace(chosen, wasted=wasted), _kinds(errors)
        failure = next((e for e in errors if isinstance(e, Transient)), errors[-1])
        if isinstance(errors[-1], SummaryRejected) and not patient:
            failure = errors[-1]  # nobody waits any more: the next rung may do without a model
        if isinstance(failure, SummaryRejected):
            failure.spent = wasted
        raise failure

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
        requests = [_filled(request, template, snapshot) for request in plan.requests]
        summaries = tuple(summarizer.summarize(request, counter) for request in requests)
        context = splice(plan, _texts(plan, summaries, count), count)
        goal = plan.snapshot.aim
        detail = _detail(template, requests, summaries, snapshot, goal) if template else b""
        return Draft(
            before=snapshot,
            plan=plan,
            context=context,
            summaries=summaries,
            quality=_quality(snapshot, plan, context),
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


def _cost(summary: Summary) -> Spent:
    return Spent(
        prompt_tokens=summary.prompt_tokens,
        completion_tokens=summary.completion_tokens,
        cost_usd=summary.cost_usd,
    )


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


def _filled(
    request: SummaryRequest, template: Template | None, snapshot: Snapshot
) -> SummaryRequest:
    """The request with the template's text and, apart from it, what people and tools wrote.

    Nothing of that is in the text: it becomes a system message.
    """
    if template is None or not request.template:
        return request
    names = {"recent_turns": "conversation", "previous_summary": "summary so far"}
    shown = {
        name: (names.get(name, name.replace("_", " ")), value)
        for name, value in _values(request, snapshot).items()
        if value and name in template.placeholders
    }
    pointers = {name: f'(given below, marked "{called}")' for name, (called, _) in shown.items()}
    return replace(
        request,
        instructions=render(template, pointers).text,
        material=tuple(given for name, given in shown.items() if name not in names),
    )


def _values(request: SummaryRequest, snapshot: Snapshot) -> dict[str, str]:
    """What the placeholders stand for."""
    return {
        "recent_turns": readable(request.records),
        "previous_summary": request.previous,
        "system_prompt": snapshot.system,
        "session": snapshot.session,
        "memories": request.memories,
        "reflections": request.reflections,
        "latest_input": request.latest_input,
    }


def _quality(before: Snapshot, plan: Plan, context: StoredContext) -> Quality | None:
    """The score of what the plan covers or shortens; None when it does neither.

    Where it only shortens, all but the newest turns stand for what is covered: a stub is read
    between turns that are whole.
    """
    kept = [turn for turn in plan.snapshot.turns if turn.seq > context.watermark]
    tracker = CallTracker()
    shown = [tracker.repair(turn.shown) for turn in kept]
    covered = [*records(plan.covered), *_shortened(before, kept)]
    older = 0
    if not plan.covered:
        older = max(len(kept) - before.policy.recent_turns_to_keep, 0)
        covered = [(t.seq, message) for t in kept[:older] for message in t.original]
    # Memories come from elsewhere: a summary does not keep them.
    covered = [record for record in covered if not is_memories(record[1])]
    if not covered:
        return None
    return score(
        covered=covered,
        previous=render_head(before.stored),
        head=[*render_head(context), *(m for own in shown[:older] for m in own)],
        tail=[message for own in shown[older:] for message in own],
        kept_turns=len(kept),
        wanted_turns=before.policy.recent_turns_to_keep,
        turns=before.counted_seq,
        compactions=before.compactions,
        weights=before.policy.quality_weights,
    )


def _shortened(before: Snapshot, kept: Sequence[LoggedTurn]) -> list[tuple[Seq, JsonMessage]]:
    """The originals of kept messages that this plan is the first to shorten."""
    known = {turn.seq: turn.shown for turn in before.turns}
    return [
        (turn.seq, original)
        for turn in kept
        for original, was, shown in zip(turn.original, known[turn.seq], turn.shown, strict=True)
        if shown is not was
    ]


def _detail(
    template: Template,
    requests: Sequence[SummaryRequest],
    summaries: Sequence[Summary],
    snapshot: Snapshot,
    goal: int,
) -> bytes:
    """What the archive keeps about a managed view."""
    request, summary = requests[0], summaries[0]
    return encode_json(
        {
            "template": template.name,
            "source": template.source,
            "sha256": template.sha256,
            "model": summary.model,
            "raw_output": summary.text,
            "parsed_output": parse_output(template, summary.text),
            "input": render(template, _values(request, snapshot)).text,
            "sections": list(sections_found(template, summary.text)),
            "budget": {
                "summary_tokens": request.budget_tokens,
                "recent_turns": len({seq for seq, _ in request.records}),
                "history_tokens": snapshot.history_tokens,
                "context_tokens": snapshot.usage.total,
                "goal_tokens": goal,
            },
        }
    )
