"""JSON as flat groups of `key=value`, in document order, without recursion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.code_lines import is_code
from turnmill_worker.reading.sentences import UNIT_CHARS, capped, one_line, sentences

_LIST_RUN: Final = 8
"""List elements that share one unit: enough to keep short lists whole, few enough to choose."""

_LOOKED_AT: Final = 2_000
"""Characters of a value that tell whether it is prose."""


class Flat(NamedTuple):
    """One JSON object: where it hung, and its `(key, value)` pairs, values already one line."""

    label: str
    pairs: tuple[tuple[str, str], ...]


def parse_json(text: str) -> Any | None:
    """The object or array `text` holds, or None when it is not one, or nests beyond reading."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


SHARED: Final = "all"
"""The label of what all records of a list have in common."""

_A_LIST: Final = 2
_A_RECORD: Final = 3
"""More fields than that have a record of which some are told once for all."""


def flatten(value: Any, asked: Container[str] = ()) -> Iterator[Flat]:
    """The objects in `value`, outermost first; nulls and empties are left out.

    What was `asked` for, and every record of a list has, is told once before them.
    """
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        label, node = stack.pop()
        if isinstance(node, str):
            yield Flat(label, tuple(("", sentence) for sentence in sentences(node)))
            continue
        if isinstance(node, dict):
            pairs, nested = _of_object(node)
        else:
            scalars = [_scalar(child) for child in node if not isinstance(child, dict | list)]
            pairs = list(_runs("", scalars))
            shared = _shared(node, asked)
            if shared:
                yield Flat(
                    SHARED,
                    tuple(
                        chain.from_iterable(
                            _pair(one_line(k), one_line(v)) for k, v in shared.items()
                        )
                    ),
                )
                node = [{k: v for k, v in own.items() if k not in shared} for own in node]
            nested = [(label, child) for child in node if child and isinstance(child, dict | list)]
        if pairs:
            yield Flat(label, tuple(pairs))
        stack.extend(reversed(nested))


def _shared(records: list[Any], asked: Container[str]) -> dict[str, str]:
    """The fields that all these records have with one value, where that was asked for."""
    if len(records) < _A_LIST or not all(isinstance(own, dict) for own in records):
        return {}
    return {
        key: value
        for key, value in records[0].items()
        if isinstance(value, str)
        and value in asked
        and all(len(own) > _A_RECORD and own.get(key) == value for own in records)
    }


def _of_object(node: dict[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, Any]]]:
    """An object's own pairs, small children's among them, and the children that stand apart."""
    pairs: list[tuple[str, str]] = []
    nested: list[tuple[str, Any]] = []
    clashing = _clashing(node)
    for raw, child in node.items():
        key = one_line(raw)
        if isinstance(child, str) and _is_prose(child):
            nested.append((key[:64], child))
        elif not isinstance(child, dict | list):
            pairs.extend(_pair(key, _scalar(child)))
        elif not _is_inline(raw, child):
            nested.extend([(key[:64], child)] if child else [])
        elif isinstance(child, list):
            pairs.extend(_runs(key, [_scalar(value) for value in child]))
        else:
            for inner, value in child.items():
                name = f"{key}.{one_line(inner)}" if inner in clashing else one_line(inner)
                pairs.extend(_pair(name, _scalar(value)))
    return pairs, nested


def _is_prose(value: str) -> bool:
    """Whether a value is a text of several sentences, which are told one by one."""
    if len(value) <= UNIT_CHARS and "\n" not in value.strip():
        return False
    texts = sentences(value[:_LOOKED_AT])
    return len(texts) > 1 and 4 * sum(map(is_code, texts)) <= len(texts)


def _clashing(node: dict[str, Any]) -> set[str]:
    """The keys that two small children share, or one shares with the object itself."""
    small = [
        child for key, child in node.items() if isinstance(child, dict) and _is_inline(key, child)
    ]
    if not small:
        return set()
    met = Counter(chain(node, *small))
    return {key for key, times in met.items() if times > 1}


def _is_inline(key: str, child: Any) -> bool:
    """Whether a child reads as part of its parent: scalars only, and no identifier for a key."""
    if isinstance(child, list):
        return not any(isinstance(value, dict | list) for value in child)
    if len(child) > _LIST_RUN or any(map(str.isdigit, key)):
        return False
    return not any(isinstance(value, dict | list) for value in child.values())


def _runs(key: str, values: list[str]) -> Iterator[tuple[str, str]]:
    values = [value for value in values if value]
    for start in range(0, len(values), _LIST_RUN):
        yield from _pair(key, ",".join(values[start : start + _LIST_RUN]))


def _pair(key: str, value: str) -> Iterator[tuple[str, str]]:
    short = key[:64]
    return ((short, piece) for piece in capped(value))


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return one_line(value)
    # What `json.dumps` writes, at a tenth of its time.
    return str(value) if type(value) is int else json.dumps(value)
