"""Hashed linear models: a signed byte for each bucket, and one for the bias."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from typing import Final
from zlib import crc32

BITS: Final = 18
MASK: Final = (1 << BITS) - 1
UNIT: Final = 0.125
"""What one step of a weight adds to the log-odds."""

_MIX: Final = 0x9E3779B1


@cache
def weights(model: str) -> memoryview:
    """The weights in a file beside this one, read at the first question."""
    return memoryview(files("turnmill_worker.reading").joinpath(model).read_bytes()).cast("b")


@lru_cache(maxsize=1 << 15)
def hashed(token: str) -> tuple[int, int, int]:
    """Hashes of a token, of its beginning, and of what it is among its neighbours.

    That is itself if it is short, as the words are that hold a sentence together in most languages,
    and else its ending.
    """
    first = token[0]
    if first.isdigit():
        return crc32(token.encode()), 1, 2
    whole = crc32(token.encode())
    if len(token) <= 4:
        return whole, whole, whole
    return whole, crc32(f"{token[:4]}~".encode()), crc32(f"~{token[-2:]}".encode())


def grams(tokens: list[str]) -> set[int]:
    """Buckets of tokens, neighbours, and neighbours of which the rare are only endings."""
    words, stems, shapes = zip(*map(hashed, ("^", *tokens, "$")), strict=True)
    found = {each & MASK for each in words}
    found.update([each & MASK for each in stems])
    found.update([(one * _MIX ^ other) & MASK for one, other in zip(shapes, words[1:], strict=False)])
    pairs = [one * _MIX + 1 ^ other for one, other in zip(shapes, shapes[1:], strict=False)]
    found.update([each & MASK for each in pairs])
    found.update([(pair * _MIX ^ three) & MASK for pair, three in zip(pairs, shapes[2:], strict=False)])
    return found
