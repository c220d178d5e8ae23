"""Force: a summarization somebody asked for, whatever the limits say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnmill.contract.errors import SessionBusy, Transient, UnknownSession
from turnmill.contract.results import SummarizationResult
from turnmill_worker.compaction.plan import previous_text
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.on_request import force as force_plan
from turnmill_worker.compaction.strategies.on_request import is_short
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.pipeline.batch import Batches, NoBatches
from turnmill_worker.pipeline.ladder import RETRY_AFTER_S, Ladder, Ports
from turnmill_worker.pipeline.summarize import Writer
from turnmill_worker.ports.sessions import Lease
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent

__all__ = ["Forcing"]


_FITS: Final = "everything fits as it is, and a summary would be no shorter"


class Forcing:
    """Summarizes at once, by a live request."""

    def __init__(
        self,
        ports: Ports,
        writer: Writer,
        batches: Batches | NoBatches,
        estimate: Callable[[SessionRef], object],
    ) -> None:
        self._ports = ports
        self._writer = writer
        self._batches = batches
        self._estimate = estimate

    def force(self, ref: SessionRef, *, template: str) -> SummarizationResult:
        """Summarize all but the newest turns now, whatever the limits say.

        Raises:
            UnknownSession: there is no such session.
            SessionBusy: another worker is compacting it, and takes long.
            InvalidName, UnknownTemplate, InvalidTemplate: the template cannot be used.
        """
        self._writer.check(template)
        claim = self._ports.sessions.lease(ref, forced=True)
        with claim as lease:
            self._estimate(ref)
            snapshot = self._ports.sessions.snapshot(ref)
            if snapshot is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            if lease is None:
                raise SessionBusy(f"another worker is compacting {ref.session!r}; try again")
            spent = self._batches.give_up(ref) if "own" in claim.batches else NOTHING
            return self._summarize(ref, lease, snapshot, spent, template=template)

    def _summarize(
        self, ref: SessionRef, lease: Lease, snapshot: Snapshot, spent: Spent, *, template: str
    ) -> SummarizationResult:
        """``spent`` was spent for nothing, beside what the snapshot knows of."""
        counter = self._ports.counter(snapshot.policy)
        plan = force_plan(snapshot, counter, template=template)
        if plan is None:
            lease.retry(after_s=0)  # whether the ladder has work is for the next to say
            return _nothing_done(snapshot, "no turns beside the newest")
        try:
            draft = self._writer.best(plan, counter)
        except SummaryRejected as error:
            # Whether the ladder has work is for the next to say.
            lease.retry(after_s=0, spent=snapshot.tried.spent + spent + error.spent)
            fits = is_short(plan) and snapshot.usage.total <= snapshot.limits.soft
            return _nothing_done(snapshot, _FITS if fits else f"the summary was refused: {error}")
        except Transient:
            lease.retry(after_s=RETRY_AFTER_S)
            raise
        ladder = Ladder(self._ports, ref, lease, snapshot, self._writer)
        ladder.charge(spent)
        if ladder.commit(draft).outcome != "committed":
            raise SessionBusy(f"{ref.session!r} changed meanwhile; try again")
        return SummarizationResult(
            tokens_before=draft.record.tokens_before,
            tokens_after=draft.record.tokens_after,
            turns_summarized=draft.record.turns,
            summary=previous_text(draft.context),
            version=draft.record.version,
        )


def _nothing_done(snapshot: Snapshot, reason: str) -> SummarizationResult:
    total = snapshot.usage.total
    return SummarizationResult(
        tokens_before=total,
        tokens_after=total,
        turns_summarized=0,
        summary=previous_text(snapshot.stored),
        version=snapshot.version,
        reason=reason,
    )
