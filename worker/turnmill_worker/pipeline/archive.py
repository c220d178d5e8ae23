"""Draining what left the log into the archive, and forgetting it there."""

from __future__ import annotations

from turnmill.contract import jobs
from turnmill.contract.job_outcomes import Outcome
from turnmill_worker.ports.archive import Archive, Outgoing
from turnmill_worker.ports.hints_and_waiting import Hints
from turnmill_worker.ports.values import Mark, SessionRef

__all__ = ["Archiving"]

BATCH = 200
"""Turns and commits stored in one transaction and trimmed in one script."""

BATCHES = 20
"""Per job; a session that still has more is hinted again, behind the others."""


class Archiving:
    """Moves turns from Redis to the archive: stored first, trimmed after."""

    def __init__(self, outgoing: Outgoing, archive: Archive | None, hints: Hints) -> None:
        self._outgoing = outgoing
        self._archive = archive
        self._hints = hints

    def archive(self, ref: SessionRef) -> Outcome:
        """Store everything the session's streams hold; safe to run twice, or to die midway."""
        if self._archive is None:
            return Outcome(outcome="skipped", session=ref.session)
        turns = 0
        for _ in range(BATCHES):
            drain = self._outgoing.next_drain(ref, most=BATCH)
            if drain is None:
                break
            for step in drain.steps:
                if isinstance(step, Mark):
                    self._archive.mark(
                        ref,
                        drain.epoch,
                        after_seq=step.after_seq,
                        through_seq=step.through_seq,
                        state=step.state,
                    )
                else:
                    self._archive.store(ref, drain.epoch, step)
                    turns += len(step.turns)
            left = self._outgoing.trim(ref, drain)
            if left == "forgotten":
                # Forgotten while we stored: what was stored must go, too.
                self._archive.forget_epochs(ref, through_epoch=drain.epoch)
                return Outcome(outcome="forgotten", session=ref.session)
            if left == "done":
                break
        else:
            self._hints.send(jobs.ARCHIVE, ref)
        return Outcome(outcome="archived", session=ref.session, turns=turns)

    def forget(self, ref: SessionRef) -> Outcome:
        """Remove the session's forgotten incarnations from the archive."""
        for session, at_us in self._outgoing.forgotten(ref.namespace):
            if session == ref.session:
                if self._archive is not None:
                    # An epoch is the microsecond a session began: all that began before are gone.
                    self._archive.forget_epochs(ref, through_epoch=str(at_us))
                self._outgoing.forgotten_done(ref, at_us, settled=self._archive is None)
        return Outcome(outcome="forgotten", session=ref.session)
