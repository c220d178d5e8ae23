"""How much a sentence sounds like a standing rule of the user: a linear model, any language."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from functools import lru_cache
from typing import Final

from turnmill_worker.reading.linear import MASK, UNIT, bucket, grams, weights

MODEL: Final = "rules.bin"
LEAST: Final = -0.15
"""Log-odds from which on a sentence is kept as a rule."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+(?:['-][^\W\d_{_UNSPACED}]+)*"
    r"|\d[\d.,:%/-]*|[?!:;(？！：；]|_+"
)
_MOST: Final = 40
"""Tokens of a sentence that are looked at."""

_LENGTHS: Final = (3, 5, 8, 12, 18)
_OF_LENGTH: Final = tuple(bucket(f"long {at}") for at in range(len(_LENGTHS) + 1))
_ASKS: Final = bucket("asks")

_PLAIN: Final = 12
"""Sentences of a message that people still write themselves."""


def least(sentences: int) -> float:
    """The log-odds from which on a sentence is a rule, in a message of so many.

    A long message is mostly material that was pasted.
    """
    return LEAST + max(0.0, math.log2(max(sentences, 1) / _PLAIN))


def buckets(sentence: str) -> list[int]:
    """The features of a sentence; a feature stands once for each time that it is there."""
    tokens = _TOKEN.findall(sentence.lower().replace("\u2019", "'"))[:_MOST]
    found = grams(tokens)
    found.append(_OF_LENGTH[bisect_left(_LENGTHS, len(tokens))])
    if sentence[-1:] in {"?", "？", "؟"}:
        found.append(_ASKS)
    return found


@lru_cache(maxsize=4096)
def score(sentence: str) -> float:
    """The log-odds that a sentence lays down something that lasts."""
    table, found = weights(MODEL), buckets(sentence)
    return UNIT * (table[MASK + 1] + sum(map(table.__getitem__, found)) / math.sqrt(len(found)))
