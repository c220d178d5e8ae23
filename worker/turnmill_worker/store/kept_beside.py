"""Facts and pool as Redis holds them beside a context: workers read them, agents never do."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.codec import decode_json, encode_json
from turnmill_worker.compaction.ledger.fact_merging import Fact
from turnmill_worker.compaction.pool.pooled import PooledLine

__all__ = ["decoded", "encoded"]


def encoded(facts: Sequence[Fact], pool: Sequence[PooledLine]) -> bytes:
    """Both in one value; ``b""`` for nothing."""
    if not facts and not pool:
        return b""
    return encode_json(
        {
            "facts": [fact.model_dump(exclude_defaults=True) for fact in facts],
            "pool": [line.model_dump(mode="json", exclude_defaults=True) for line in pool],
        }
    )


def decoded(body: bytes | None) -> tuple[tuple[Fact, ...], tuple[PooledLine, ...]]:
    """Both; empty, to begin anew, when another version of turnmill wrote them."""
    try:
        found = decode_json(body) if body else {}
        if isinstance(found, list):  # as written before there was a pool
            found = {"facts": found}
        return (
            tuple(Fact(**fields) for fields in found.get("facts", ())),
            tuple(PooledLine(**fields) for fields in found.get("pool", ())),
        )
    except (AttributeError, TypeError, ValueError):
        return (), ()
