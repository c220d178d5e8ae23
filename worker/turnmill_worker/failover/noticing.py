"""Notices that Redis went back, by comparing what it has with what the archive has."""

from __future__ import annotations

import structlog

from turnmill.contract.errors import Transient, TurnmillError
from turnmill.contract.names import Namespace
from turnmill_worker.ports.protocols import Archive, Outgoing, States
from turnmill_worker.ports.values import SessionInRedis, SessionRef

log = structlog.get_logger()


def session_agreed(
    states: States, archive: Archive | None, ref: SessionRef, *, thoroughly: bool = False
) -> SessionInRedis | None:
    """All of the session in Redis; what else the archive has is kept as a lost branch.

    That is what comes after Redis' newest turn and commit. ``thoroughly``: where it has more, or
    has as much, every turn and commit is compared as well.
    """
    # The archive first: what it has by now was in Redis before.
    tip = archive.tip(ref) if archive else None
    past = states.past(ref)
    if archive is None or past is None or tip is None or tip.epoch != past.epoch:
        return past
    other = tip.version == past.version and bool(tip.commit_id) and tip.commit_id != past.commit_id
    if thoroughly or other or tip.is_ahead_of(past.tip):
        version = past.version - 1 if other else past.version
        lost = archive.lose(ref, tip, past.seen, last_seq=past.last_seq, version=version)
        if lost is not None:
            log.warning("redis went back", session=ref.session, **lost.numbers)
    return past


class Comparing:
    """Keeps apart what Redis lost, also of sessions that nobody archives or asks about again."""

    def __init__(self, runs: Outgoing, states: States, archive: Archive | None) -> None:
        self._runs = runs
        self._states = states
        self._archive = archive

    def compare(self, namespace: Namespace) -> None:
        """Compare the namespace's positions, once for each run of Redis."""
        if self._archive is None:
            return
        if run := self._runs.uncompared(namespace):
            self._compare(self._archive, namespace)
            self._runs.compared(namespace, run)

    def _compare(self, archive: Archive, namespace: Namespace) -> None:
        for present in self._runs.positions(namespace):
            for session, tip in archive.tips(namespace, list(present)).items():
                if tip.is_ahead_of(present[session]):
                    self._agree(archive, SessionRef(namespace, session))

    def _agree(self, archive: Archive, ref: SessionRef) -> None:
        try:
            session_agreed(self._states, archive, ref, thoroughly=True)
        except Transient:
            raise
        except TurnmillError as error:  # what cannot be read stops no other session
            log.warning("not compared", session=ref.session, error=type(error).__name__)
