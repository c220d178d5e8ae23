"""Facts and pool as Redis holds them beside a context: workers read them, agents never do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.formats import is_newer, refuse_newer, stamp, unreadable
from turnmill_worker.compaction.ledger.fact_merging import Fact
from turnmill_worker.compaction.pool.pooled import PooledLine

__all__ = ["decoded", "encoded"]

_FACTS: Final = TypeAdapter(tuple[Fact, ...])
_POOL: Final = TypeAdapter(tuple[PooledLine, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What is written, in this order."""

    facts: tuple[Fact, ...]
    pool: tuple[PooledLine, ...]
    format: str = ""


_KEPT: Final = TypeAdapter(_Kept)


def encoded(facts: Sequence[Fact], pool: Sequence[PooledLine]) -> bytes:
    """Both in one value; ``b""`` for nothing."""
    if not facts and not pool:
        return b""
    kept = _Kept(facts=tuple(facts), pool=tuple(pool), **stamp())
    try:
        return _KEPT.dump_json(kept, exclude_defaults=True)
    except PydanticSerializationError:  # a lone surrogate, which is not UTF-8
        return encode_json(_KEPT.dump_python(kept, mode="json", exclude_defaults=True))


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
