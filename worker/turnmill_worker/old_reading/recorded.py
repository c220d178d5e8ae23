"""What calls and results state in JSON; remembered, because most are read more than once.

A turn is read when it is in the tail, and again when it is covered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from turnmill_worker.old_reading.actions import Action, described
from turnmill_worker.old_reading.flat_json import Flat, flatten, parse_json

__all__ = ["answer_in", "call_in", "fields_in", "without_echoes"]

_READ_AGAIN: Final = 4_000
"""Characters; a longer text is not remembered."""

_KNOWN: Final = 1 << 11

_FEW_FIELDS: Final = 6
"""Fields; what answers in more tells a record."""

_WORD = re.compile(r"\w+")


def fields_in(content: str, asked: frozenset[str] = frozenset()) -> tuple[Flat, ...]:
    """What a text states in JSON; ``asked`` is what a tool was given for it."""
    return _record(content, asked) if len(content) <= _READ_AGAIN else _fields(content, asked)


def answer_in(content: str) -> tuple[Flat, ...] | str:
    """What a tool answers: the fields of a record, or else the text, out of JSON that wraps it."""
    return _known_answer(content) if len(content) <= _READ_AGAIN else _answer(content)


def call_in(name: str, arguments: Any) -> Action | tuple[Flat, ...] | str:
    """What is asked of a tool: an action, the fields of a record, or else the text."""
    if isinstance(arguments, Mapping):
        return described(name, arguments) or tuple(flatten(arguments))
    text = arguments.strip() if isinstance(arguments, str) else ""
    return _known_call(name, text) if len(text) <= _READ_AGAIN else _call(name, text)


def without_echoes(flat: Sequence[Flat], call: str) -> tuple[Flat, ...]:
    """A short answer without fields that only repeat, in several words, what the call says."""
    if sum(len(each.pairs) for each in flat) > _FEW_FIELDS:
        return tuple(flat)
    known = frozenset(_WORD.findall(call.lower()))
    kept = (
        each._replace(pairs=tuple(pair for pair in each.pairs if not _is_echo(pair[1], known)))
        for each in flat
    )
    return tuple(each for each in kept if each.pairs)


def _is_echo(value: str, known: frozenset[str]) -> bool:
    words = _WORD.findall(value.lower())
    return len(words) > 1 and known.issuperset(words)


def _fields(content: str, asked: frozenset[str]) -> tuple[Flat, ...]:
    parsed = parse_json(content)
    return () if parsed is None else tuple(flatten(parsed, asked))


def _answer(content: str) -> tuple[Flat, ...] | str:
    parsed = parse_json(content)
    if parsed is None:
        return content
    inner = _texts_of(parsed)
    return tuple(flatten(parsed)) if inner is None else inner


def _call(name: str, text: str) -> Action | tuple[Flat, ...] | str:
    parsed = parse_json(text)
    action = described(name, parsed) if isinstance(parsed, Mapping) else None
    if action is not None:
        return action
    if parsed is None and text not in {"", "{}", "[]"}:
        return text
    return tuple(flatten(parsed or {}))


def _texts_of(parsed: Any) -> str | None:
    """The text in a JSON result that wraps a program's output; None if it is a record."""
    if not isinstance(parsed, dict):
        return None
    texts = [value for value in parsed.values() if isinstance(value, str) and "\n" in value]
    others = [f"{key}: {value}" for key, value in parsed.items() if isinstance(value, int | float)]
    return "\n".join([*texts, *others]) if texts else None


_record = lru_cache(_KNOWN)(_fields)
_known_answer = lru_cache(_KNOWN)(_answer)
_known_call = lru_cache(_KNOWN)(_call)
