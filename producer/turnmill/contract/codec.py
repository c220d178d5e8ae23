"""JSON as turnmill stores it: compact UTF-8, of strings that every provider's client can send.

Half a surrogate pair, as a tool leaves it that cuts an emoji, is no character and has no UTF-8:
it is written and read as U+FFFD, two halves in a row as their character.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

MAX_DEPTH = 64
"""How deep lists and objects may nest in a field; every JSON reader copes with far more."""


def encode_json(value: Any) -> bytes:
    """The value as JSON.

    Raises:
        TypeError, ValueError: the value is not JSON.
    """
    try:
        return to_json(value)
    except PydanticSerializationError:
        return encode_exactly(sendable(value))


def encode_exactly(value: Any) -> bytes:
    """As ``encode_json``, but half pairs stay what they are: as escapes, in ASCII throughout."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode_json(body: bytes) -> Any:
    """What ``encode_json`` wrote, or an older version, which let half pairs pass.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(body)
    except ValueError:
        pass
    try:
        return sendable(decode_exactly(body))
    except RecursionError:
        raise ValueError("not JSON: nested deeper than any reader follows") from None


def decode_exactly(body: bytes) -> Any:
    """What ``encode_exactly`` wrote; raises as ``decode_json``."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body)  # slower, and takes half pairs


def sendable(value: Any) -> Any:
    """The value with each string in it, names of fields too, as UTF-8 can hold it."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {sendable(name): sendable(item) for name, item in value.items()}
    return [sendable(item) for item in value] if isinstance(value, list | tuple) else value


def is_deep(value: Any) -> bool:
    """Whether lists and objects nest deeper than ``MAX_DEPTH``; linear, and not recursive."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list | tuple)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True
