"""Records to archive."""

from __future__ import annotations

import hashlib
from typing import Any

from turnmill.contract.codec import encode_json
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.trajectory import TurnState
from turnmill_worker.ports.values import ArchivedCompaction, ArchivedTurn, Blob, SessionRef

EPOCH = "1763690000000000"
LATER = "1763690000000001"


def session(name: str, namespace: str = "shop") -> SessionRef:
    """A session by its names."""
    return SessionRef(Namespace(namespace), SessionId(name))


def turn(
    seq: int,
    *messages: dict[str, Any],
    state: TurnState = "kept",
    blobs: tuple[str, ...] = (),
    at_ms: int | None = None,
) -> ArchivedTurn:
    """A turn; a user's when no messages are given."""
    said = messages or ({"role": "user", "content": f"turn {seq}"},)
    return ArchivedTurn(
        seq=Seq(seq),
        messages=encode_json(said),
        turn_id=f"t-{seq}",
        fields=b"",
        at_ms=1_000 * seq if at_ms is None else at_ms,
        tokens=7,
        state=state,
        blobs=blobs,
    )


def compaction(
    version: int, *, detail: dict[str, Any] | None = None, **context: Any
) -> ArchivedCompaction:
    """A compaction that wrote a context of these fields."""
    return ArchivedCompaction(
        version=Version(version),
        at_ms=10_000 * version,
        record=encode_json({"version": version, "strategy": "rolling"}),
        context=encode_json({"version": version, **context}),
        detail=encode_json(detail) if detail else b"",
    )


def image(data: bytes) -> Blob:
    """An image by its content."""
    return Blob(sha256=hashlib.sha256(data).hexdigest(), media_type="image/png", data=data)
