"""Measures what namespaces use, and tells their clients which of their quotas are used up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from turnmill.contract.names import Namespace
from turnmill_worker.quotas import Quota, Quotas

__all__ = ["QuotaWatch", "Usage"]

log = structlog.get_logger()

EVERY = 5
"""Sweeps between two measurements."""


class Usage(Protocol):
    """What namespaces use, and what their clients are told."""

    def sessions(self, name: Namespace) -> int:
        """How many there are."""

    def bytes(self, name: Namespace) -> int:
        """Memory of Redis for them without their images, estimated from a sample."""

    def tell(
        self, name: Namespace, over: Mapping[str, tuple[int, int]], rate: float | None
    ) -> None:
        """For a minute, what is used up (use and limit), and how many pushes a second there are."""


class QuotaWatch:
    """Part of one sweeper's passes; without a file of quotas it costs nothing."""

    def __init__(self, quotas: Quotas, usage: Usage) -> None:
        self._quotas = quotas
        self._usage = usage
        self._passes = 0
        self._told: dict[Namespace, set[str]] = {}

    def run(self, names: Sequence[Namespace]) -> None:
        """Measure these namespaces, now and then."""
        self._passes += 1
        if self._passes % EVERY != 1:
            return
        self._quotas.read_again()
        # Where pushes are refused, nothing is listed that would let a sweep visit the namespace.
        refused = {name for name, over in self._told.items() if over}
        for name in sorted(refused.union(names)):
            quota = self._quotas.of(name)
            if quota != Quota():
                self._look(name, quota)

    def _look(self, name: Namespace, quota: Quota) -> None:
        measured = (
            ("sessions", quota.sessions, self._usage.sessions),
            ("bytes", quota.bytes, self._usage.bytes),
        )
        over = {
            kind: (used, most)
            for kind, most, measure in measured
            if most is not None and (used := measure(name)) >= most
        }
        self._usage.tell(name, over, quota.pushes_per_second)
        if over.keys() != self._told.get(name, set()):
            log.warning("quota used up" if over else "quota free again", namespace=name, over=over)
        self._told[name] = set(over)
