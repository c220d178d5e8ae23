"""What a text is found by: the numbers of `words`, the turns a question names, and its passages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

from turnmill_worker.reading.words import CODE, KEY, KIND, PLAIN, common, concepts, number

__all__ = ["asks", "excerpt", "numbers", "split", "telling", "told", "turn_number", "turns_named"]

LONGEST: Final = 800
"""Characters of a passage. A text that is not longer is one passage."""

_ENDS: Final = ("\n\n", "\n", ". ", "。", " ")
"""Where a passage may end, best first; a text without any is cut anywhere."""

# Thai and Lao, Burmese, Khmer, kana, han, hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_JOINS = re.compile(r"[\W_]+")
_ASKS: Final = "?？؟ "
_CLAUSE_END = re.compile(r"[.!?,;:\n。！？、，；：؟،]")
_TURN = re.compile(r"\bturns?\s+(\d{1,9})\b", re.IGNORECASE)
_COMBINING: Final = ("\u0300", "\u036f")
_LONGEST_KEPT: Final = 40
_MOST_KEPT: Final = 1 << 15
_SAYS_NOTHING: Final = 68
"""In the steps of ``common``: so common is no stem."""


def numbers(text: str, *, asked: bool = False) -> Iterator[int]:
    """The numbers a text is found by, as often as they are said; linear in its length.

    Case, accents and width make no difference. An identifier is found by its parts, too. In
    scripts without spaces, a text is also found by single characters; a question ``asked`` holds
    pairs, unless it is one character long.
    """
    plain = _folded(text)
    if not plain.isascii():
        plain = _RUN.sub(_pairs if asked else _pairs_and_characters, plain)
    return chain.from_iterable(map(_KNOWN.__getitem__, plain.split()))


def told(text: str) -> tuple[int, ...]:
    """The numbers of what a text tells, each once: without the words that everybody says."""
    return tuple(
        dict.fromkeys([each for each in numbers(text, asked=True) if each & KIND != PLAIN])
    )


class _Known(dict[str, tuple[int, ...]]):
    """The numbers of what stands between spaces, each worked out when it is met first."""

    def __missing__(self, token: str) -> tuple[int, ...]:
        found = concepts(token, prose=False)
        if any(each & KIND == CODE for each in found):
            parts = concepts(_JOINS.sub(" ", token), prose=False)
            found = tuple(dict.fromkeys((*found, *parts)))
        if len(token) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[token] = found
        return found


_KNOWN: Final = _Known()


def asks(text: str) -> bool:
    """Whether a text asks more than it tells: a question's words are there, rarely its answer.

    That is, its last clause ends with a question mark and is longer than all before it.
    """
    said = text.rstrip()
    told = said.rstrip(_ASKS)
    return told != said and not _CLAUSE_END.search(told, len(told) // 2)


def telling(own: int) -> float:
    """How much a number tells, by what people usually say: near 0 for ``the``, 1 for the rare."""
    root = own & ~KIND if own & KIND == PLAIN else own
    return 1 - common().get(root, 0) / _SAYS_NOTHING


def turn_number(seq: int) -> int:
    """The number that a turn is found by."""
    return number(KEY, f"turn {seq}")


def turns_named(question: str) -> tuple[str, tuple[int, ...]]:
    """A question without the turns it names, as contexts cite them (``turn 42``), and these."""
    named = tuple(turn_number(int(seq)) for seq in _TURN.findall(question))
    return _TURN.sub(" ", question), tuple(dict.fromkeys(named))


def split(text: str) -> list[str]:
    """The text cut into as few passages as end where a thought does; nothing is left out."""
    found: list[str] = []
    start = 0
    while len(text) - start > LONGEST:
        end = _end(text, start)
        found.append(text[start:end])
        start = end
    return [*found, text[start:]]


def _end(text: str, start: int) -> int:
    most = start + LONGEST
    for mark in _ENDS:
        if (at := text.rfind(mark, start + 1, most)) >= 0:
            return at + len(mark)
    return most


def excerpt(text: str, place: int) -> str:
    """One passage of a text as people quote it: with an ellipsis where the text goes on."""
    passages = split(text)
    before = "… " if place else ""
    after = " …" if place < len(passages) - 1 else ""
    return f"{before}{passages[place].strip()}{after}"


def _pairs(run: re.Match[str]) -> str:
    return f" {run[0]} "


def _pairs_and_characters(run: re.Match[str]) -> str:
    return f" {run[0]} {' '.join(run[0])} "


def _folded(text: str) -> str:
    low = text.lower()
    return low if low.isascii() else "".join(map(_plain, low))


@lru_cache(maxsize=1 << 14)
def _plain(character: str) -> str:
    """One character without accents and in its plain form.

    One by one: `unicodedata.normalize` sorts runs of marks, in time quadratic in their length.
    """
    first, last = _COMBINING
    apart = unicodedata.normalize("NFKD", character)
    kept = "".join(each for each in apart if not first <= each <= last)
    return unicodedata.normalize("NFKC", kept).lower()
