"""Facts and pool as Redis holds them beside a context: workers read them, agents never do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.formats import is_newer, refuse_newer, stamp, unreadable
from turnmill_worker.compaction.ledger.fact_merging import Fact
from turnmill_worker.compaction.pool.pooled import PooledLine

__all__ = ["decoded", "encoded"]

_FACTS: Final = TypeAdapter(tuple[Fact, ...])
_POOL: Final = TypeAdapter(tuple[PooledLine, ...])


def encoded(facts: Sequence[Fact], pool: Sequence[PooledLine]) -> bytes:
    """Both in one value; ``b""`` for nothing."""
    if not facts and not pool:
        return b""
    return encode_json(
        {
            "facts": _FACTS.dump_python(tuple(facts), mode="json", exclude_defaults=True),
            "pool": _POOL.dump_python(tuple(pool), mode="json", exclude_defaults=True),
            **stamp(),
        }
    )


def decoded(body: bytes | None) -> tuple[tuple[Fact, ...], tuple[PooledLine, ...]]:
    """Both; empty, to begin anew, when a version from before the pool or a damage left no other.

    Raises:
        NewerFormat: a newer version of turnmill wrote them, and this one cannot read them.
    """
    found: Any = {}
    try:
        found = decode_json(body) if body else {}
        if isinstance(found, list):  # as written before there was a pool
            found = {"facts": found}
        refuse_newer(found, "stored facts")
        return (
            _FACTS.validate_python(found.get("facts", ())),
            _POOL.validate_python(found.get("pool", ())),
        )
    except (AttributeError, TypeError, ValueError):
        if is_newer(found):
            raise unreadable(found, "stored facts", "") from None
        return (), ()
