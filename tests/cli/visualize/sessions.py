"""Made-up sessions to draw, with numbers that add up as a worker's do."""

from __future__ import annotations

from typing import Any

from turnmill.contract.context import StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn

__all__ = ["SYSTEM_TOKENS", "commit", "drawn", "turn"]

SYSTEM_TOKENS = 100
START_MS = 1_750_000_000_000


def turn(seq: int, text: str = "", **fields: Any) -> TrajectoryTurn:
    """A user's turn of 10 tokens, one second after the one before."""
    message = {"role": "user", "content": text or f"message {seq}"}
    given = {"messages": (message,), "tokens": 10, "at_ms": START_MS + seq * 1000, **fields}
    return TrajectoryTurn(seq=Seq(seq), **given)


def commit(version: int, covers: tuple[int, int], **fields: Any) -> CommittedContext:
    """A compaction of turns after the first through the second; ``fields`` are of either part."""
    after, through = covers
    context = {
        "summary": f"summary {version}",
        **{
            name: fields.pop(name)
            for name in set(fields) & (set(StoredContext.model_fields) - {"strategy"})
        },
    }
    last_seq = fields.get("last_seq", through)
    at_ms = fields.pop("at_ms", START_MS + last_seq * 1000 + 500)
    record = {
        "strategy": "rolling",
        "turns": through - after,
        "elided": 0,
        "tokens_before": 0,
        "tokens_after": 0,
        "last_seq": last_seq,
        **fields,
    }
    return CommittedContext(
        at_ms=at_ms,
        record=Compaction(
            session=SessionId("agent-7"),
            version=Version(version),
            from_watermark=Seq(after),
            watermark=Seq(through),
            **record,
        ),
        context=StoredContext(version=Version(version), watermark=Seq(through), **context),
    )


def drawn(*turns: TrajectoryTurn, **fields: Any) -> Trajectory:
    """A session of these turns."""
    given = {"hard_limit": 400, "soft_limit": 300, "system_prompt": "Be brief.", **fields}
    return Trajectory(
        session=SessionId("agent-7"), namespace=Namespace("default"), turns=turns, **given
    )
