"""JSON as flat groups of `key=value`, in document order, without recursion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from turnmill_worker.summarizers.extractive.text import capped, one_line

_LIST_RUN: Final = 8
"""List elements that share one unit: enough to keep short lists whole, few enough to choose."""


@dataclass(frozen=True, slots=True)
class Flat:
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


def flatten(value: Any) -> Iterator[Flat]:
    """The objects in `value`, outermost first; nulls and empties are left out."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        label, node = stack.pop()
        pairs: list[tuple[str, str]] = []
        nested: list[tuple[str, Any]] = []
        items = node.items() if isinstance(node, dict) else (("", child) for child in node)
        scalars: list[str] = []
        for key, child in items:
            if not isinstance(child, dict | list):
                if isinstance(node, list):
                    scalars.append(_scalar(child))
                else:
                    pairs.extend(_pair(one_line(key), _scalar(child)))
            elif isinstance(node, dict) and _is_inline(key, child):
                pairs.extend(_inline(one_line(key), child))
            elif child:
                nested.append((one_line(key)[:64] if key else label, child))
        pairs.extend(_runs("", scalars))
        if pairs:
            yield Flat(label, tuple(pairs))
        stack.extend(reversed(nested))


def _is_inline(key: str, child: Any) -> bool:
    """Whether a child reads as part of its parent: scalars only, and no identifier for a key."""
    if isinstance(child, list):
        return not any(isinstance(value, dict | list) for value in child)
    if len(child) > _LIST_RUN or any(character.isdigit() for character in key):
        return False
    return not any(isinstance(value, dict | list) for value in child.values())


def _inline(key: str, child: Any) -> Iterator[tuple[str, str]]:
    if isinstance(child, list):
        yield from _runs(key, [_scalar(value) for value in child])
        return
    for inner, value in child.items():
        yield from _pair(one_line(inner), _scalar(value))


def _runs(key: str, values: list[str]) -> Iterator[tuple[str, str]]:
    values = [value for value in values if value]
    for start in range(0, len(values), _LIST_RUN):
        yield from _pair(key, ",".join(values[start : start + _LIST_RUN]))


def _pair(key: str, value: str) -> Iterator[tuple[str, str]]:
    return ((key[:64], piece) for piece in capped(value))


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else json.dumps(value)
