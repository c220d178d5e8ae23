"""What a plan leads to: a context ready to be committed, its score, and its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.memories_message import without_memories
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head, rules_beside
from turnmill_worker.compaction.plan import Plan, Records
from turnmill_worker.compaction.pool.pooled import units_of
from turnmill_worker.compaction.quality.score import Quality, Scorer
from turnmill_worker.compaction.quality.trust import Trust
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
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


def scorer_of(plan: Plan) -> Scorer | None:
    """Scores the contexts this plan may lead to; None when it covers and shortens nothing.

    If it only shortens, all but the newest turns count as covered: a stub is read between
    turns that are whole.
    """
    before = plan.snapshot.before
    kept = [turn for turn in plan.snapshot.turns if turn.seq > plan.cut]
    tracker = CallTracker()
    shown = [tracker.repair(turn.shown) for turn in kept]
    shortened = _shortened(before, kept)
    covered = Records([*plan.records, *shortened]) if shortened else plan.records
    older = 0
    if not plan.covered:
        older = max(len(kept) - before.policy.recent_turns_to_keep, 0)
        covered = Records((t.seq, message) for t in kept[:older] for message in t.original)
    if not without_memories(covered):  # a summary does not keep those
        return None
    # What is shortened are results of tools, which state nothing that a later turn replaces.
    known = plan.candidates.told if plan.candidates and plan.covered else None
    return Scorer(
        covered=covered,
        previous=render_head(before.stored),
        tail=[message for own in shown[older:] for message in own],
        kept_turns=len(kept),
        wanted_turns=before.policy.recent_turns_to_keep,
        turns=before.counted_seq,
        compactions=before.compactions,
        weights=before.policy.quality_weights,
        behind=[message for own in shown[:older] for message in own],
        known=render_head(_known(plan)),
        trust=Trust(
            covered.units,
            rules=rules_beside(plan.rules, plan.asked),
            older=known.parts[0] if known else units_of(plan.snapshot.pool),
            told=known,
            threshold=before.policy.quality_threshold,
        ),
    )


def _known(plan: Plan) -> StoredContext:
    """The plan's context, as far as it is known before its summaries are written."""
    stored = plan.snapshot.stored
    return stored.model_copy(
        update={
            "summary": "…" if plan.request else plan.summary,
            "ledger": "…" if plan.request else stored.ledger,
            "watermark": plan.cut,
            "receipts": plan.receipts,
            "events": plan.events,
            "managed": False,
            "requests": plan.asked,
        }
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
