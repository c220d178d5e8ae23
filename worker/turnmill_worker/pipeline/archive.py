"""Draining what left the log into the archive, and forgetting it there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from turnmill.contract import jobs
from turnmill.contract.errors import Transient
from turnmill.contract.job_outcomes import Outcome
from turnmill_worker.failover.noticing import Comparing, session_agreed
from turnmill_worker.ports.protocols import Archive, ArchiveDiverged, Hints, Outgoing, States
from turnmill_worker.ports.values import Drain, Mark, SessionRef

log = structlog.get_logger()

SESSIONS = 32
"""Sessions stored in one transaction and trimmed in one round trip."""

TURNS = 800
"""Turns stored in one transaction, and as many commits."""

SIZE = 16 * 2**20
"""About how many bytes of turns or commits are stored in one transaction, images included."""

TRANSACTIONS = 20
"""Per job; what still waits then is hinted again, behind other jobs."""

MOST = 100
"""Sessions per shard that one job looks at."""


@dataclass(slots=True)
class _Done:
    """What a job did so far.

    Attributes:
        sessions: those of which something was archived.
        more: those that have more.
        failed: why others could not be archived.
    """

    turns: int = 0
    sessions: set[SessionRef] = field(default_factory=set)
    more: list[SessionRef] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)


class Archiving:
    """Moves turns from Redis to the archive: stored first, trimmed after."""

    def __init__(
        self, outgoing: Outgoing, states: States, archive: Archive | None, hints: Hints
    ) -> None:
        self._outgoing = outgoing
        self._states = states
        self._comparing = Comparing(outgoing, states, archive)
        self._archive = archive
        self._hints = hints

    def archive(self, ref: SessionRef) -> Outcome:
        """Store all that waits in the session's namespace; safe to run twice, or to die midway.

        A session that cannot be archived stops no other: its error is raised after them.
        """
        if self._archive is None:
            return Outcome(outcome="skipped", session=ref.session)
        self._comparing.compare(ref.namespace)
        waiting = deque(self._outgoing.waiting(ref.namespace, most=MOST))
        done = _Done()
        for _ in range(TRANSACTIONS):
            some = [waiting.popleft() for _ in range(min(SESSIONS, len(waiting)))]
            if not some:
                break
            self._drain_or_divide(self._archive, some, done)
            waiting.extend(done.more)
            done.more.clear()
        if waiting and done.sessions:  # else nothing can be archived, and the sweep tries again
            self._hints.send(jobs.ARCHIVE, waiting[0])
        if done.failed:
            raise done.failed[0]
        return Outcome(
            outcome="archived",
            session=ref.session,
            turns=done.turns,
            sessions=len(done.sessions),
        )

    def forget(self, ref: SessionRef) -> Outcome:
        """Remove the session's forgotten incarnations from the archive."""
        for at_us in self._outgoing.forgotten(ref):
            if self._archive is not None:
                # An epoch is the microsecond a session began: all that began before are gone.
                self._forget(self._archive, ref, str(at_us))
            self._outgoing.forgotten_done(ref, at_us, settled=self._archive is None)
        return Outcome(outcome="forgotten", session=ref.session)

    def _forget(self, archive: Archive, ref: SessionRef, through_epoch: str) -> None:
        # What Redis has now was begun since, by a clock that may have been set back.
        now = self._outgoing.incarnation(ref)
        archive.forget_epochs(ref, through_epoch=through_epoch, but=now)

    def _drain_or_divide(self, archive: Archive, refs: Sequence[SessionRef], done: _Done) -> None:
        """Drain these sessions together; those that keep others from it alone."""
        try:
            self._drain(archive, refs, done)
        except Transient:
            raise
        except Exception as error:  # noqa: BLE001 - raised when all others are archived
            if len(refs) == 1:
                log.error("not archived", session=refs[0].session, error=type(error).__name__)  # noqa: TRY400
                done.failed.append(error)
                return
            half = len(refs) // 2
            self._drain_or_divide(archive, refs[:half], done)
            self._drain_or_divide(archive, refs[half:], done)

    def _drain(self, archive: Archive, refs: Sequence[SessionRef], done: _Done) -> None:
        drains = self._next(refs)
        try:
            archive.drain(drains)
        except ArchiveDiverged as error:
            for ref in error.refs:
                # Redis is read again: a worker that was stopped may have brought what is lost.
                session_agreed(self._states, archive, ref, thoroughly=True)
            drains = self._next(refs)
            archive.drain(drains)
        for ref, left in self._outgoing.trim(drains).items():
            if left == "gone":
                # Another worker was faster; or what was stored is of a state that Redis lost.
                session_agreed(self._states, archive, ref, thoroughly=True)
                done.more.append(ref)
                continue
            if left == "forgotten":
                # Forgotten while we stored: what was stored must go, too.
                self._forget(archive, ref, drains[ref].epoch)
                continue
            if left == "lost":
                # Nobody asked for it: the archive may be all that is left of the session.
                log.warning("redis lost a session", session=ref.session, turns=_turns(drains[ref]))
                continue
            done.sessions.add(ref)
            done.turns += _turns(drains[ref])
            if left == "more":
                done.more.append(ref)

    def _next(self, refs: Sequence[SessionRef]) -> dict[SessionRef, Drain]:
        share = len(refs)
        return self._outgoing.next_drains(refs, turns=TURNS // share, size=SIZE // share)


def _turns(drain: Drain) -> int:
    return sum(len(step.turns) for step in drain.steps if not isinstance(step, Mark))
