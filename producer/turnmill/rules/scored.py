"""How much a clause sounds like a standing rule, whatever its words: a linear model.

Its features are words, neighbouring words, and the same with rare words replaced by their endings;
of a script without spaces they are characters. All are hashed into buckets (Weinberger et al.
2009, "Feature Hashing for Large Scale Multitask Learning"). `benchmarks.fit_rules` fits it to
labelled messages in eleven languages.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final
from unicodedata import normalize
from zlib import crc32

from turnmill.rules.clauses import UNSPACED
from turnmill.rules.wording.lexicon import words

__all__ = ["BUCKETS", "MODEL", "UNIT", "buckets", "score", "shape_of", "weights_of"]

BUCKETS: Final = 1 << 19
"""A power of two: the last bits of a hash are its bucket."""

MODEL: Final = "scored.bin"
"""The file of the weights: a signed byte for each bucket, and one for the bias."""

UNIT: Final = 0.125
"""What one step of a weight adds to the log-odds."""

_MOST_TOKENS: Final = 40
"""Of a clause: what is said after so many is not read."""

_LENGTHS: Final = (3, 5, 8, 12, 18)
"""How long a clause is, in tokens, counts by these steps."""

_LETTER: Final = rf"[^\W\d_{UNSPACED}]"
_TOKEN = re.compile(
    rf"[{UNSPACED}]|{_LETTER}+(?:['-]{_LETTER}+)*|\d[\d.,:%/-]*|[?!:;(\uff1f\uff01\uff1a]|_+"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_STEM: Final = 4
_ENDING: Final = 2
_LONG: Final = 5
"""Letters: of a stem, of an ending, of a word that has one."""

_KEPT: Final = words(
    "i i'm i've i'd i'll we we're we've we'll our ours my mine me us myself you your yours you're "
    "you'll he she they it it's its he's she's they're this that that's these those there there's "
    "the a an his her their them him and but or nor so because cause since if when whenever where "
    "wherever until till unless before after while once without with for from to of in into on "
    "onto at by over under above below between about per is are be am was were been being isn't "
    "aren't wasn't weren't do does did done don't doesn't didn't dont doesnt not no never nothing "
    "nobody none neither nowhere only just always ever each every everything everyone any anything "
    "anyone anybody all both most more less least than then instead rather can can't cannot cant "
    "could couldn't will won't would wouldn't should shouldn't must mustn't may might shall has "
    "have had having haven't hasn't need needs needn't want wants wanted like likes prefer please "
    "pls thanks thank ok okay yes yeah hi hey hello sorry what how why who which here now today "
    "tomorrow yesterday tonight again still already yet too very really much many some few such as "
    "also even out off up down away back let let's get got go going keep keeps kept make makes "
    "made use using give show tell ask say call send put take leave stay stick write answer reply "
    "explain add avoid skip stop start treat assume consider mean means right first last next one "
    "two three same other another else whatever something sometimes usually often mostly limit "
    "maximum minimum max exception exceptions"
)
"""Words that stand for themselves among their neighbours; of all others the ending does."""


def score(clause: str) -> float:
    """The log-odds that a clause in lower case lays something down that lasts; 0 is even."""
    weights = weights_of(MODEL)
    found = buckets(clause)
    return UNIT * (weights[BUCKETS] + sum(map(weights.__getitem__, found)) / math.sqrt(len(found)))


def buckets(clause: str) -> set[int]:
    """The features of a clause in lower case; one at least, as its length is one."""
    if not clause.isascii():
        clause = normalize("NFC", clause)
    tokens = _TOKEN.findall(clause.replace("\u2019", "'"))[:_MOST_TOKENS]
    found = {crc32(b"#%d" % bisect_left(_LENGTHS, len(tokens)))}
    before = pair = crc32(b"^")
    for token in (*tokens, "$"):
        word, stem, shape, beside = _hashed(token)
        after = crc32(beside, before)
        found.update((word, stem, after, crc32(beside, pair)))
        before, pair = shape, after
    return {each % BUCKETS for each in found}


@lru_cache(maxsize=8192)
def _hashed(token: str) -> tuple[int, int, int, bytes]:
    """Hashes of a token, of its stem, and of its shape; and how the shape joins the one before."""
    shape = shape_of(token).encode()
    whole = token in _KEPT or not token[0].isalpha() or _UNSPACED.match(token)
    stem = token if whole else f"{token[:_STEM]}~"
    return crc32(token.encode()), crc32(stem.encode()), crc32(shape), b" " + shape


def shape_of(token: str) -> str:
    """What a token is among its neighbours: itself, or the ending of a rarer word."""
    first = token[0]
    if first.isdigit():
        return "0"
    if not first.isalpha():
        return first
    if token in _KEPT or _UNSPACED.fullmatch(token):
        return token
    return f"~{token[-_ENDING:]}" if len(token) >= _LONG else "~"


@cache
def weights_of(model: str) -> memoryview:
    """The weights in a file beside this one, read at the first question.

    An agent that says nothing new never needs them.
    """
    return memoryview(files("turnmill.rules").joinpath(model).read_bytes()).cast("b")
