"""The terms a text is found by: word roots, numbers, identifiers, pairs of unspaced characters."""

from __future__ import annotations

import functools
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

import Stemmer

from turnmill.rules.wording.english import STOP
from turnmill.rules.wording.lexicon import words
from turnmill_worker.grounding.irregular_forms import BASE_FORM
from turnmill_worker.old_reading.lexicon import NUMBER_WORDS
from turnmill_worker.old_reading.words import IDENTIFIERS, kind_of

__all__ = ["SAYING", "asks", "query_terms", "terms"]

_LONGEST_TOKEN: Final = 256
"""Characters read of an unbroken run: beyond that it is data, which nobody asks for by heart."""

# Scripts written without spaces: Thai and Lao, Burmese, Khmer, kana, han, hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
# Linear: what a run is made of and what joins runs share no character.
_TOKEN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W{_UNSPACED}]+(?:[.:/@+'&%-][^\W{_UNSPACED}]+)*"
)
_PART = re.compile(r"[^\W_]+")
_ASKS: Final = ("?", "？", "؟", "\u037e")
_CLAUSE_END = re.compile(r"[.!?,;:\n。！？、，；：؟،\u037e]")
_COMBINING = ("\u0300", "\u036f")


def terms(text: str) -> Iterator[str]:
    """The terms of a text to be found, repeated as often as they are said. Linear in its size."""
    return _read(text, single=True)


def query_terms(text: str) -> tuple[str, ...]:
    """The different terms of a question, in the order they are asked."""
    return tuple(dict.fromkeys(_read(text, single=False)))


def asks(text: str) -> bool:
    """Whether a text asks more than it tells: a question's words are there, rarely its answer.

    That is, its last clause ends with a question mark and is longer than all before it: who asks
    for help says first what it is about.
    """
    said = text.rstrip()
    if not said.endswith(_ASKS):
        return False
    told = said.rstrip("".join((*_ASKS, " ")))
    return not _CLAUSE_END.search(told, len(told) // 2)


def _read(text: str, *, single: bool) -> Iterator[str]:
    folded = text.casefold()
    if not folded.isascii():
        folded = folded.translate(_FOLDED)
    for match in _TOKEN.finditer(folded):
        token = match[0]
        if match.lastgroup:
            yield from _pairs(token, single=single)
        else:
            yield from _terms_of(token[:_LONGEST_TOKEN])


def _pairs(run: str, *, single: bool) -> Iterator[str]:
    """Neighbouring characters serve as words; single ones too, for a one-character question."""
    if single or len(run) == 1:
        yield from run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


@functools.lru_cache(maxsize=1 << 16)
def _terms_of(token: str) -> tuple[str, ...]:
    """One token's terms: an identifier as it stands, and the roots of the words in any."""
    word = token.removesuffix("'s")
    if word in STOP:
        return ()
    if word.isalpha():
        return (_root(word),)
    parts = _PART.findall(word)
    found = tuple(_root(part) for part in parts if part not in STOP)
    return (word, *found) if len(parts) > 1 and kind_of(word) in IDENTIFIERS else found


def _root(word: str) -> str:
    return NUMBER_WORDS.get(word) or _SNOWBALL.stem(BASE_FORM.get(word, word))


class _Snowball(threading.local):
    """English word roots; a stemmer belongs to one thread."""

    def __init__(self) -> None:
        # Without its cache: ours stands before it.
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord


_SNOWBALL: Final = _Snowball()


class _Folding(dict[int, str]):
    """Characters without accents and in their plain form, one by one.

    ``unicodedata.normalize`` sorts runs of combining marks, in time quadratic in their length.
    """

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFKD", chr(code))
        first, last = _COMBINING
        plain = "".join(character for character in apart if not first <= character <= last)
        folded = self[code] = unicodedata.normalize("NFKC", plain).casefold()
        return folded


_FOLDED = _Folding({ord("’"): "'", ord("ʼ"): "'"})

SAYING: Final = frozenset(
    _root(word)
    for word in words(
        "say tell speak talk mention ask explain describe discuss recommend suggest advise propose"
    )
)
"""Roots of the verbs of saying: questions use them about turns that do without them.

“What did I mention about the rent?” asks for “The rent is 900”, not for “I mentioned it”.
"""
