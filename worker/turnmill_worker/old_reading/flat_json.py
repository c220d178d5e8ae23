"""JSON as flat groups of `key=value`, in document order, without recursion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from turnmill_worker.old_reading.code_lines import is_code
from turnmill_worker.old_reading.sentences import UNIT_CHARS, capped, one_line, sentences

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
"""Opens the label of what all records of a list have in common."""

_SEVERAL: Final = 2
_MOST_TOGETHER: Final = 8
"""Lists of more records are no parts of one thing, like the flights of a route."""

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
            if asked and (shared := _shared(node, asked)):
                told = (_pair(one_line(key), one_line(value)) for key, value in shared.items())
                yield Flat(f"{SHARED} {label}".rstrip(), tuple(chain.from_iterable(told)))
                node = _without(node, shared)
            nested = [
                (_numbered(label, number, child), child)
                for number, child in enumerate(node, 1)
                if child and isinstance(child, dict | list)
            ]
        if pairs:
            yield Flat(label, tuple(pairs))
        stack.extend(reversed(nested))


def _shared(node: list[Any], asked: Container[str]) -> dict[str, str]:
    """What was asked for, and all these records have; of lists of them, one record in each."""
    lists = [child if isinstance(child, list) else [child] for child in node]
    records = list(chain.from_iterable(lists))
    if len(records) < _SEVERAL or not all(map(_is_record, records)):
        return {}
    if max(map(len, lists)) > _MOST_TOGETHER:
        return {}
    return {
        key: value
        for own in lists[:1]
        for key, value in chain.from_iterable(map(dict.items, own))
        if isinstance(value, str)
        and value in asked
        and all(any(one.get(key) == value for one in other) for other in lists)
    }


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and len(value) > _A_RECORD


def _without(node: list[Any], shared: dict[str, str]) -> list[Any]:
    return [
        _without(child, shared)
        if isinstance(child, list)
        else {key: value for key, value in child.items() if shared.get(key) != value}
        for child in node
    ]


def _numbered(label: str, number: int, child: Any) -> str:
    """The label of a list's element: lists of records in a list are told apart by numbers."""
    if not (isinstance(child, list) and len(child) >= _SEVERAL and isinstance(child[0], dict)):
        return label
    return f"{label} {number}".lstrip()


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
