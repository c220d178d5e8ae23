"""Compares the archive with a Redis that was started again, promoted or restored."""

from __future__ import annotations

import structlog

from turnmill.contract.errors import Transient, TurnmillError
from turnmill.contract.names import Namespace
from turnmill_worker.pipeline.agreement import past_agreed
from turnmill_worker.ports.archive import Archive, Runs
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import SessionRef

__all__ = ["Comparing"]

log = structlog.get_logger()


class Comparing:
    """Keeps apart what Redis lost, also of sessions that nobody archives or asks about again."""

    def __init__(self, runs: Runs, states: States, archive: Archive | None) -> None:
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
            past_agreed(self._states, archive, ref, thoroughly=True)
        except Transient:
            raise
        except TurnmillError as error:  # what cannot be read stops no other session
            log.warning("not compared", session=ref.session, error=type(error).__name__)
