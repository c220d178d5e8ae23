"""How much a sentence sounds like a standing rule of the user's: a linear model, in any language."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from functools import lru_cache
from typing import Final

from turnmill_worker.reading.linear import MASK, UNIT, grams, weights

MODEL: Final = "rules.bin"
LEAST: Final = -0.25
"""Log-odds from which on a sentence is kept as a rule."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+(?:['-][^\W\d_{_UNSPACED}]+)*|\d[\d.,:%/-]*|[?!:;(？！：；]|_+"
)
_MOST: Final = 40
_LENGTHS: Final = (3, 5, 8, 12, 18)


def least(sentences: int) -> float:
    """The log-odds from which on a sentence of so long a message is a rule: long ones are material."""
    return LEAST + max(0.0, math.log2(sentences / _PLAIN)) if sentences > _PLAIN else LEAST


_PLAIN: Final = 12
"""Sentences of a message that people still write themselves."""


def buckets(text: str) -> set[int]:
    """The features of a piece."""
    tokens = _TOKEN.findall(text.lower().replace("\u2019", "'"))[:_MOST]
    found = grams(tokens)
    found.add(bisect_left(_LENGTHS, len(tokens)))
    if text[-1:] in "?？؟":
        found.add(7)
    return found


@lru_cache(maxsize=4096)
def score(sentence: str) -> float:
    """The log-odds that a sentence lays down something that lasts."""
    return _score(sentence, weights(MODEL))


def _score(piece: str, table: memoryview) -> float:
    found = buckets(piece)
    return UNIT * (table[MASK + 1] + sum(map(table.__getitem__, found)) / math.sqrt(len(found)))
