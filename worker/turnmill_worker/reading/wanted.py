"""What the user asked for, and how much a column or a printed line is of that."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from turnmill_worker.reading.words import (
    CODE,
    IDENTIFIERS,
    KIND,
    KNOWN,
    PLAIN,
    PLAIN_FROM,
    UNSPACED,
    common,
    concepts,
)

PASSED, SAID, PRINTED = "\x01", "\x02", ""
"""What opens the name of an argument; the column of what was said; and of what was printed."""

ASKED: Final = 0.3
"""How much a value of listed things has to be asked for, for them to be worked through."""

_NAMED, _VALUES_NAMED, _PASSED_ON, _SAID_OF, _SPOKEN = 1.0, 0.6, 0.6, 2.5, 0.5
_VARIES, _DIFFERS = 0.15, 0.1
"""What a column is worth whose name, or values, the user says; that calls pass; that was said about
a thing; whose values are spoken of elsewhere; that takes few values; and that takes many."""

_BRIEF: Final = 24
"""Characters of a value that is passed on purpose; longer ones are texts."""

_SHORT: Final = 2
"""Letters of words that are not looked for within values."""

_LITTLE: Final = 0.3
"""What a word counts that everybody says all the time."""

_STEM, _ALIKE, _ROOT = 0.9, 0.75, 4
"""What it says that the user said a word in another form, or one that is part of it or begins like
it; and the letters that such words have."""

_LINES, _MOST_OF_IT = 2, 160
"""Lines of a text that may tell what came out, and their characters."""

WORDS = re.compile(r"[^\W\d_]+|\d+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
VALUE = re.compile(r"[#$€£]?\w*\d(?:[\w.,:/+-]*\w)?[%€£$]?")


class Wanted:
    """What the user asked for, to weigh columns and lines by."""

    def __init__(self, sentences: Iterable[str], spoken: AbstractSet[int]) -> None:
        """What these sentences of the user ask for; ``spoken``: identifiers that anybody said."""
        self.sentences = [_forms(own) for own in sentences]
        self.words: set[str | int] = set().union(*self.sentences)
        self.roots = {own for own in self.words if isinstance(own, str) and len(own) >= _ROOT}
        self.begins: dict[str, list[str]] = defaultdict(list)
        for own in self.roots:
            self.begins[own[:_ROOT]].append(own)
        self.spoken = spoken
        self.known: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.names: dict[str, float] = {}
        self.hits: dict[str, dict[int, float]] = {}

    def asks(self, word: str) -> bool:
        """Whether a word that says something is one of the user's."""
        return self.word(word) > _LITTLE

    def word(self, word: str) -> float:
        """How much a word is one of the user's."""
        if word not in self.known:
            self.known[word] = self._within(word, self.words)
        return self.known[word]

    def _within(self, word: str, words: Collection[str | int]) -> float:
        """How much of a word is in a sentence: its form, its stem, or its pairs of characters."""
        if UNSPACED.search(word):
            ids = KNOWN[word]
            return sum(each in words for each in ids) / len(ids)
        return _weight(word) * (
            1.0 if word in words else _STEM if KNOWN.word(word) in words else 0.0
        )

    def share(self, text: str) -> float:
        """The share of a text's words that are the user's."""
        share = self.shares.get(text)
        if share is None:
            words = [word for word in letters(text) if len(word) > _SHORT or not word.isascii()]
            share = sum(map(self.word, sorted(words))) / len(words) if words else 0.0
            self.shares[text] = share
        return share

    def asked(self, name: str, values: Sequence[str]) -> float:
        """How much a column is what the user asked for, by its name and by its values."""
        shared = sum(map(self.share, values)) / len(values)
        brief = min(1.0, _BRIEF * len(values) / sum(map(len, values)))
        if name not in self.names:
            self.names[name] = self._named(name)
        return (_NAMED * self.names[name] ** 2 + _VALUES_NAMED * shared) * brief

    def worth(self, name: str, values: Sequence[str]) -> float:
        """What a column is worth to somebody who asked that."""
        kinds = len(set(values))
        if kinds < 2 and name != SAID:  # noqa: PLR2004
            return 0.0
        brief = min(1.0, _BRIEF * len(values) / sum(map(len, values)))
        worth = self.asked(name, values)
        worth += _PASSED_ON * brief**2 if name[:1] == PASSED else _SAID_OF if name == SAID else 0.0
        worth += _VARIES if kinds <= len(values) / 3 else _DIFFERS * brief
        if name[:1] in {PASSED, SAID}:
            return worth
        spoken = sum(
            any(each & KIND == CODE and each in self.spoken for each in values_of(own))
            for own in values
        )
        return worth + _SPOKEN * brief * spoken / len(values)

    def _named(self, name: str) -> float:
        """How much of a name the user said in one sentence; its last part says what it is."""
        parts = [
            [word.lower() for word in WORDS.findall(CAMEL.sub(" ", part))]
            for part in name.lstrip(PASSED).split(".")
        ]
        whole, last = [word for part in parts for word in part], parts[-1]
        if not last:
            return 0.0
        weights = {word: _weight(word) for word in whole}
        hits = {word: self._hits(word) for word in whole}
        best = 0.0
        for at in {each for found in hits.values() for each in found}:
            said = {word: found.get(at, 0.0) for word, found in hits.items()}
            ends = sum(map(said.__getitem__, last)) / sum(map(weights.__getitem__, last))
            found = sum(said.values()) / sum(weights.values())
            best = max(best, (found + ends) / 2 * min(1.0, sum(said.values())))
        return best

    def _hits(self, word: str) -> dict[int, float]:
        """The sentences in which a word of a name is, be it in another form or in a compound."""
        if word not in self.hits:
            found = {
                at: own
                for at, words in enumerate(self.sentences)
                if (own := self._within(word, words))
            }
            akin = self._akin(word) if len(word) >= _ROOT else set()
            for at, words in enumerate(self.sentences) if akin else ():
                if at not in found and not akin.isdisjoint(words):
                    found[at] = _ALIKE
            self.hits[word] = found
        return self.hits[word]

    def _akin(self, word: str) -> set[str]:
        """The user's words that are in this one, or this in them, or that begin mostly alike."""
        found = {root for root in self.roots if word in root or root in word}
        for root in self.begins.get(word[:_ROOT], ()):
            pairs = zip(root, word, strict=False)
            alike = next((at for at, (a, b) in enumerate(pairs) if a != b), _ROOT)
            if 3 * alike >= 2 * max(len(root), len(word)):
                found.add(root)
        return found

    def lines(self, lines: Sequence[str], key: str) -> list[str]:
        """Of what was printed, the line that says most of what was asked, and one that adds."""
        told: set[str] = set()
        best: list[tuple[float, int]] = []
        asked: list[set[str]] = []
        for at, own in enumerate(lines):
            worths = {word: self.word(word) for word in sorted(letters(own))}
            asked.append({word for word, worth in worths.items() if worth > _LITTLE})
            score = 0.3 * min(3, sum(each & KIND in IDENTIFIERS for each in values_of(own)))
            score += (
                min(2.0, sum(worths.values())) + 0.5 * (key in own) + 0.5 * (at == len(lines) - 1)
            )
            if own and score > 0:
                best.append((-score, at))
        found: list[int] = []
        for _, at in sorted(best):
            if len(found) == _LINES or found == [len(lines) - 1]:
                break
            whole = sum(len(lines[each]) for each in (*found, at))
            news = asked[at] - told and whole <= _MOST_OF_IT and VALUE.search(lines[at])
            if not found or news:
                found.append(at)
                told |= asked[at]
        return [lines[at] for at in sorted(found)]


_CELLS: Final = 1 << 13
"""Cells that are remembered as they were analysed: most stand in one compaction after another."""


@lru_cache(maxsize=_CELLS)
def letters(text: str) -> frozenset[str]:
    """The words of a text that are no numbers."""
    return frozenset([word for word in WORDS.findall(text.lower()) if word.isalpha()])


@lru_cache(maxsize=_CELLS)
def _forms(text: str) -> frozenset[str | int]:
    """Words as they stand, their stems, and the pairs of those that no spaces part."""
    words = dict.fromkeys(WORDS.findall(text.lower()))
    found: set[str | int] = {*words, *map(KNOWN.word, words)}
    for word in words:
        if UNSPACED.search(word):
            found.update(KNOWN[word])
    return frozenset(found)


@lru_cache(maxsize=_CELLS)
def _weight(word: str) -> float:
    """What it says that a word was said: less of one that everybody says."""
    root = KNOWN.word(word)
    return _LITTLE if root & KIND == PLAIN else 1 - common().get(root, 0) / (2 * PLAIN_FROM)


@lru_cache(maxsize=_CELLS)
def values_of(text: str) -> frozenset[int]:
    """What a cell says, but for words that say nothing; all of them if it says nothing else."""
    ids = concepts(text, prose=False)
    return frozenset([each for each in ids if each & KIND != PLAIN]) or frozenset(ids)
