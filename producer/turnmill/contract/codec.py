"""JSON as turnmill stores it: compact, UTF-8, and lossless for whatever a Python str may hold."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

MAX_DEPTH = 64
"""How deep lists and objects may nest in a field; every JSON reader copes with far more."""


def encode_json(value: Any) -> bytes:
    """The value as JSON; all ASCII escapes if it has a lone surrogate, which is not UTF-8.

    Raises:
        TypeError, ValueError: the value is not JSON.
    """
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode_json(body: bytes) -> Any:
    """What ``encode_json`` wrote.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(body)
    except ValueError:
        try:
            return json.loads(body)  # slower, and takes lone surrogates
        except RecursionError:
            raise ValueError("nested too deep") from None


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
