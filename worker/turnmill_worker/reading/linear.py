"""Linear models over hashed n-grams: a signed byte for each bucket, and one for the bias."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from operator import xor
from typing import Final, NamedTuple
from zlib import crc32

BITS: Final = 18
MASK: Final = (1 << BITS) - 1
UNIT: Final = 0.125
"""What one step of a weight adds to the log-odds."""

_MIX: Final = 0x9E3779B1
_SHORT: Final = 4
"""Characters of a word that is its own ending, as those are that hold a sentence together."""


class Token(NamedTuple):
    """A token as features are made of it, mixed beforehand: a pair of tokens is one exclusive or.

    Its neighbours know of a long word what it begins with or what it ends in, not more.
    """

    own: tuple[int, ...]
    stem_before: int
    stem_after: int
    shape_before: int
    shape_after: int
    third: int
    near_start: int


@cache
def weights(model: str) -> memoryview:
    """The weights of a model, read at the first question."""
    path = files("turnmill_worker.reading").joinpath(f"weights/{model}")
    return memoryview(path.read_bytes()).cast("b")


def bucket(text: str, place: int = 0) -> int:
    """The bucket of a text at a place of a feature."""
    # Without the product, exclusive ors of checksums would not tell the order of tokens.
    return (crc32(text.encode()) * (_MIX + 2 * place) >> 13) & MASK


@lru_cache(maxsize=1 << 15)
def hashed(token: str) -> Token:
    """A token's hashes; of a number, only the token itself is known by its digits."""
    stem = shape = "0" if token[0].isdigit() else token
    own = [bucket(token)]
    if len(token) > _SHORT and not token[0].isdigit():
        stem, shape = f"{token[:4]}~", f"~{token[-2:]}"
        own += [bucket(stem), bucket(f"~{token[-3:]}")]
    stems, shapes = (bucket(stem, 1), bucket(stem, 2)), (bucket(shape, 3), bucket(shape, 4))
    return Token(tuple(own), *stems, *shapes, bucket(shape, 5), bucket(shape, 6))


def grams(tokens: list[str]) -> list[int]:
    """The buckets of tokens, and of two and three in a row, of which long ones are cut short."""
    rows = zip(*map(hashed, ("^", *tokens, "$")), strict=True)
    own, stems, stems_after, shapes, shapes_after, thirds, starts = rows
    pairs = list(map(xor, shapes, shapes_after[1:]))
    return [
        *chain.from_iterable(own),
        *starts[1:4],
        *map(xor, stems, stems_after[1:]),
        *pairs,
        *map(xor, pairs, thirds[2:]),
    ]
