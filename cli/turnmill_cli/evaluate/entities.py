"""Which values of a conversation count as needed later, for each kind of data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from turnmill_cli.evaluate.word_matching import text_of

__all__ = ["CODE", "TAU", "VALUES", "Entity", "Find", "Uses", "by_pattern", "call_values", "uses"]

Entity = tuple[str, str]
Find = Callable[[str], list[tuple[Entity, int]]]
Uses = Callable[[Mapping[str, Any]], set[str]]

_TAU: Final = {
    "order": r"#W\d{7}",
    "user": r"\b[a-z]+_[a-z]+_\d{4}\b",
    "payment": r"\b(?:credit_card|gift_card|paypal|certificate)_\d+\b",
    "email": r"\b[\w.+-]{1,64}@[\w-]+\.[\w.]+\b",
    "item": r"\b\d{10}\b",
    "flight": r"\bHAT\d{3}\b",
    "reservation": r"\b(?=[A-Z0-9]{0,5}\d)(?=\d{0,5}[A-Z])[A-Z0-9]{6}\b",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "amount": r"(?<![\w.])\$?\d{1,6}\.\d{2}\b|\$\d{1,6}\b",
    "airport": r"\b(?!USD|EST|JSON|THE|AND|NOT|YES|LCD|LED|USB|VIP|DOB|RGB|SSD|RAM)[A-Z]{3}\b",
    "zip": r"(?<![\w.$#-])\d{5}\b",
}
TAU: Final = re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _TAU.items()))
"""The values of customer-service agents."""

CODE: Final = re.compile(
    r"(?P<path>(?:[\w.-]+/)+[\w.-]+\w|\b\w+\.(?:py|js|ts|c|h|go|rs|md|toml|json|txt|cfg|yml)\b)"
    r"|(?P<name>\b[a-z]+(?:_[a-z0-9]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b)"
)
"""The values of coding agents."""


def by_pattern(pattern: re.Pattern[str]) -> Find:
    """Finds `((type, value), offset)`; amounts lose their `$`, paths their leading `./`."""

    def find(text: str) -> list[tuple[Entity, int]]:
        return [
            ((str(m.lastgroup), m[0].lstrip("$").removeprefix("./")), m.start())
            for m in pattern.finditer(text)
        ]

    return find


VALUES: Final[Mapping[str, Find | None]] = {
    "tau": by_pattern(TAU),
    "coding": by_pattern(CODE),
    "calls": None,
}
"""How needed values are found, by name; None: they are the arguments of the tail's calls."""


def uses(find: Find | None) -> Uses:
    """What gives the values a message uses, in lower case."""
    if find is None:
        return lambda message: set(call_values(message))
    return lambda message: {value.lower() for (_, value), _ in find(text_of(message))}


def call_values(message: Mapping[str, Any]) -> Iterator[str]:
    """The string arguments, but for flags, of a message's calls, as lower-case text."""
    for call in message.get("tool_calls") or ():
        for value in _arguments(call).values():
            if isinstance(value, str) and len(value) > 2 and value not in {"True", "False"}:  # noqa: PLR2004
                yield value.lower()


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except (ValueError, KeyError):
        return {}
    return arguments if isinstance(arguments, Mapping) else {}
