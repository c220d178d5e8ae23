"""Sessions whose commits are told to OpenTelemetry."""

from __future__ import annotations

from typing import Any

from turnmill.contract.context import StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill_worker import telemetry
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.pipeline.decide import Compact, decide, until_idle
from turnmill_worker.ports.values import Committed, SessionRef
from turnmill_worker.store.sessions import RedisSessions


class TellingSessions(RedisSessions):
    """As ``RedisSessions``."""

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        record: Compaction,
        **more: Any,
    ) -> Committed:
        """As there; tells of what was committed."""
        with telemetry.commit_span():
            committed = super().commit(ref, snapshot, context, record=record, **more)
        if committed.version:
            telemetry.compacted(ref.namespace, _trigger(snapshot.before), record)
        return committed


def _trigger(snapshot: Snapshot) -> str:
    """The limit that was exceeded; ``counts`` of the policy; ``idle``; or somebody ``asked``."""
    decision = decide(snapshot.usage, snapshot.limits, snapshot.exceeded)
    if not isinstance(decision, Compact):
        return "idle" if until_idle(snapshot) == 0 else "asked"
    return decision.requirement if snapshot.usage.total > snapshot.limits.soft else "counts"
