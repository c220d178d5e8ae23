"""The turns agents push: the text follows from the id, so that anybody can tell it was altered."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from tests.image_parts import png, showing
from turnmill.contract.context import JsonMessage

__all__ = ["STYLES", "message_of", "turn_id"]

STYLES = ("chat", "tools", "images", "small")
"""``chat`` suits sessions with several writers; ``tools`` has calls that need their results."""

_WORDS = ("parcel", "street", "order", "invoice", "window", "harbour", "ticket", "engine")


def turn_id(agent: str, session: str, number: int, style: str) -> str:
    """The id of an agent's turn of this number in a session."""
    return f"{agent}/{session}/{number}/{style}"


@lru_cache(maxsize=20_000)
def message_of(turn: str) -> JsonMessage:
    """The one message of a turn."""
    _, _, number, style = turn.rsplit("/", 3)
    seed = int.from_bytes(hashlib.blake2b(turn.encode(), digest_size=8).digest())
    if style == "small":
        return {"role": "user", "content": f"{turn} {seed % 997}"}
    if style == "images" and int(number) % 4 == 0:
        # As long as an image must be to be kept apart from its turn.
        return showing(png(seed, size=1200), text=f"{turn}: look")
    if style == "tools" and int(number) % 6 in (2, 3):
        return _call(turn, number) if int(number) % 6 == 2 else _result(turn, number, seed)
    role = "assistant" if int(number) % 2 else "user"
    return {"role": role, "content": f"{turn}: {_prose(seed, 12 + seed % 30)}"}


def _call(turn: str, number: str) -> JsonMessage:
    function = {"name": "look_up", "arguments": f'{{"of": "{turn}"}}'}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _result(turn: str, number: str, seed: int) -> JsonMessage:
    content = f"{turn}: {_prose(seed, 60 + seed % 200)}"
    return {"role": "tool", "tool_call_id": f"call-{int(number) - 1}", "content": content}


def _prose(seed: int, words: int) -> str:
    said = (
        f"{_WORDS[seed // (at + 1) % len(_WORDS)]} {seed // (at + 7) % 991}" for at in range(words)
    )
    return " ".join(said)
