"""What a plan leads to: a context ready to be committed, its score, and its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from turnmill.contract.context import StoredContext
from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.render import render_head
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.quality import Quality, Scorer
from turnmill_worker.ports.values import Summary
from turnmill_worker.spending import NOTHING, Spent

__all__ = ["NEAR", "Draft", "cost_of", "scorer_of"]

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
    tracker = CallTracker()
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
