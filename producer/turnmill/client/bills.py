"""What compactions did and cost, summed up by what is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import decode_json
from turnmill.contract.context import NO_COMPACTION
from turnmill.contract.errors import InvalidInput
from turnmill.contract.formats import as_corrupt
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.results import Bill

FIELDS: Final = ("namespace", "day", "session", "model")
_SUMS: Final = tuple(name for name in Bill.model_fields if name not in FIELDS)

Record = Mapping[str, Any]

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
    records = compactions_in({**decode_json(record), "at_ms": at_ms} for at_ms, record in entries)
    return [bill for record in records for bill in bills_of(namespace, record)]


def compactions_in(records: Iterable[Record]) -> Iterator[Record]:
    """The records of commits that compacted something."""
    return (record for record in records if record.get("strategy") not in NO_COMPACTION)


def bills_of(namespace: Namespace, record: Record) -> Iterator[Bill]:
    """The bills of one compaction, of ``at_ms``: of what wrote it, and of others that were asked.

    A model whose answers were refused is billed for them, and compacted nothing.
    """
    wrote, before = record.get("model", ""), record.get("tokens_before", 0)
    billed: dict[str, Record] = {wrote: {}}
    billed |= record.get("billed") or {wrote: record}
    for model, part in billed.items():
        is_own, prompt_tokens = model == wrote, part.get("prompt_tokens", 0)
        cost_usd = part.get("cost_usd", None if part is record else 0.0)
        yield Bill(
            namespace=namespace,
            day=time.strftime("%Y-%m-%d", time.gmtime(record["at_ms"] / 1000)),
            session=SessionId(record.get("session", "")),
            model=model or "none",
            compactions=int(is_own),
            tokens_saved=before - record.get("tokens_after", 0) if is_own and before else 0,
            prompt_tokens=prompt_tokens,
            completion_tokens=part.get("completion_tokens", 0),
            cost_usd=cost_usd or 0.0,
            unpriced=int(cost_usd is None and prompt_tokens > 0),
        )
