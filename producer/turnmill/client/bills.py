"""What compactions did and cost, summed up by what is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import decode_json
from turnmill.contract.context import NO_COMPACTION
from turnmill.contract.errors import InvalidInput
from turnmill.contract.formats import as_corrupt
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.results import Bill

FIELDS: Final = ("namespace", "day", "session", "model")
_SUMS: Final = tuple(name for name in Bill.model_fields if name not in FIELDS)

SESSIONS_AT_ONCE: Final = 100
"""Sessions per round trip: each may have a thousand compactions."""


def fields_of(by: str) -> list[str]:
    """The fields in a text such as ``day,model``.

    Raises:
        InvalidInput: there is no such field.
    """
    names = [name.strip() for name in by.split(",") if name.strip()]
    if unknown := [name for name in names if name not in FIELDS]:
        raise InvalidInput(f"by: no {', '.join(unknown)}, but {', '.join(FIELDS)}")
    return names


def summed(bills: Iterable[Bill], names: Sequence[str]) -> list[Bill]:
    """The sums of those that are alike in these fields, in their order; of all where it is none."""
    sums: dict[tuple[str, ...], list[Any]] = {} if names else {(): [0] * len(_SUMS)}
    for bill in bills:
        found = sums.setdefault(tuple(getattr(bill, name) for name in names), [0] * len(_SUMS))
        for at, name in enumerate(_SUMS):
            found[at] += getattr(bill, name)
    return [
        Bill(**dict(zip(names, key, strict=True)), **dict(zip(_SUMS, found, strict=True)))
        for key, found in sorted(sums.items())
    ]


@as_corrupt()
def bills_in(namespace: Namespace, entries: Iterable[tuple[int, bytes]]) -> list[Bill]:
    """A bill of each compaction, of when it was and its record.

    Raises:
        CorruptContext: what is stored is no record.
    """
    records = [(at_ms, decode_json(record)) for at_ms, record in entries]
    return [
        bill_of(namespace, at_ms, record)
        for at_ms, record in records
        if record.get("strategy") not in NO_COMPACTION
    ]


def bill_of(namespace: Namespace, at_ms: int, record: Mapping[str, Any]) -> Bill:
    """The bill of one compaction."""
    before, cost_usd = record.get("tokens_before", 0), record.get("cost_usd")
    prompt_tokens = record.get("prompt_tokens", 0)
    return Bill(
        namespace=namespace,
        day=time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000)),
        session=SessionId(record.get("session", "")),
        model=record.get("model") or "none",
        compactions=1,
        tokens_saved=before and before - record.get("tokens_after", 0),
        prompt_tokens=prompt_tokens,
        completion_tokens=record.get("completion_tokens", 0),
        cost_usd=cost_usd or 0.0,
        unpriced=int(cost_usd is None and prompt_tokens > 0),
    )
