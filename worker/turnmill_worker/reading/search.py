"""Finds what was said: texts by the numbers of `words`, and how well each meets a question.

A text is searched passage by passage and is worth what its best passage is. For each number of a
question a passage is worth that number's rarity times how plainly it is said there or, at a
discount, in the turns beside it: the words of a question and of its answer are often one turn
apart. What is long counts less, and so do the words of an assistant that answers at length.
docs/grounding.md says what each part is worth.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from turnmill_worker.reading.asking import asks, numbers, split, telling, turn_number, turns_named
from turnmill_worker.reading.voices import Voices

__all__ = ["Hit", "Index", "Said"]

DAMPING: Final = 0.5
"""How fast repeating a word stops counting."""

LENGTH: Final = 120
"""Words of a passage, each of which dampens by this much less than one repetition."""

FULL: Final = 1 / (1 + DAMPING)
"""What a word is worth that is said once in the shortest of passages."""

ASKING: Final = 0.7
"""What a passage that asks is worth against one that tells."""

CLOSE: Final = 0.5
"""What a word counts in the turn right after the one that says it."""

FAR: Final = 0.4
"""What it counts in the turn before, and in the second after."""

ASKED: Final = 2.0
"""How much more counts beside it what a question says: its answer does not repeat it."""

PART: Final = 0.5
"""How much less counts beside it what a text of several passages says: it tells of many things."""

BESIDE: Final = 0.5
"""What all turns beside a passage lend it at most."""

_UNIT: Final = 1 << 20
"""Of what is lent, as whole numbers: their sum does not depend on its order."""

_COMMON: Final = 4
"""What stands in more passages than this times the root of their number is common: it says nothing
of those beside it, nor finds any once others found enough."""

_FAINT: Final = 0.1
"""Of the heaviest number's weight: what weighs less is not looked up once enough is found."""

_LIGHT: Final = 0.2
"""Of the heaviest number's weight: what weighs less says nothing of the texts beside it, either."""

_ENOUGH: Final = 4
"""Passages found for each text that is asked for; from there on, common words only rank them."""

_FEW: Final = 512
"""Gaps that removed texts may leave before the index is packed."""

_TALK: Final = 1 << 32
_NOWHERE: Final = -_TALK


Postings = tuple["array[int]", "array[float]"]
"""The passages that have a number, oldest first, and what it is worth in each.

Below 0 where it is known only: what nobody says does not count beside it.
"""

Worths = dict[int, float]


class Said(NamedTuple):
    """A text that can be found.

    Attributes:
        id: a text with the same id replaces this one.
        who: who said it: a role, a name, or "" where nobody did.
        about: what is known and not said there, such as the day.
        talk: the conversation; texts of one stand beside each other. "" for none.
        place: its number in the talk; None for what stands beside nothing, like a tool's result.
        seq: the turn it belongs to; None for none.
        at_ms: when; of two that are worth the same, the newer is found first.
        within: what a search may be limited to.
    """

    id: str
    text: str
    who: str = ""
    about: str = ""
    talk: str = ""
    place: int | None = None
    seq: int | None = None
    at_ms: int = 0
    within: str = ""


class Hit(NamedTuple):
    """A text, and how well it meets a question: 0 to 1, the same for every question.

    1 means that all the question asks is said there, as plainly as in a text that says nothing
    else. What no text says counts against all of them.

    Attributes:
        passage: the number of its best passage, from 0.
    """

    said: Said
    relevance: float
    passage: int


class Index:
    """Texts by what they say. What is found depends on what is in it, not on how it came in.

    Not thread-safe. A passage is known by a number here; a text by that of its first passage.
    """

    def __init__(self, texts: Iterable[Said] = ()) -> None:
        self._clear()
        self.add(texts)

    def _clear(self) -> None:
        self._texts: dict[int, Said] = {}
        self._first: dict[str, int] = {}
        self._home = array("I")
        self._voice = array("I")
        self._slot = array("q")
        self._lends = array("d")
        self._at: dict[int, int] = {}
        self._beside = _Beside(self._slot, self._at, self._lends)
        self._talks: dict[str, int] = {}
        self._postings: dict[int, Postings] = {}
        self._size = 0
        self._voices = Voices()

    def __len__(self) -> int:
        return len(self._first)

    def __contains__(self, text_id: str) -> bool:
        return text_id in self._first

    def add(self, texts: Iterable[Said]) -> None:
        """Adds texts; one with an id that is there replaces the earlier one."""
        for said in texts:
            first = self._first.get(said.id)
            if first is not None:
                if self._texts[first] == said:
                    continue
                self.remove((said.id,))
            self._join(said)

    def _join(self, said: Said) -> None:
        first = self._first[said.id] = len(self._home)
        self._texts[first] = said
        slot = self._slot_of(said)
        if slot != _NOWHERE:
            self._at.setdefault(slot, first)
        self._beside.clear()
        voice = self._voices.number(said.who, said.talk, said.within)
        self._voices.count(voice, 1, len(said.text))
        passages = _passages(said)
        lends = PART if len(passages) > 1 else ASKED if asks(said.text) else 1.0
        for passage, worths in enumerate(passages, first):
            self._home.append(first)
            self._voice.append(voice)
            self._slot.append(slot)
            self._lends.append(lends)
            for number, worth in worths.items():
                found = self._postings.setdefault(number, (array("I"), array("f")))
                found[0].append(passage)
                found[1].append(worth)
        self._size += len(passages)

    def _slot_of(self, said: Said) -> int:
        """Where a text stands: its talk and its place as one number, with gaps between talks."""
        if said.place is None or not said.talk:
            return _NOWHERE
        return self._talks.setdefault(said.talk, len(self._talks) + 1) * _TALK + said.place

    def remove(self, ids: Iterable[str]) -> None:
        """Forgets texts; unknown ids are ignored."""
        for text_id in ids:
            if (first := self._first.pop(text_id, None)) is not None:
                self._part(first, self._texts.pop(first))
        if len(self._home) - self._size > self._size + _FEW:
            self.rebuild(tuple(self._texts.values()))

    def _part(self, first: int, said: Said) -> None:
        if self._at.get(self._slot[first]) == first:
            del self._at[self._slot[first]]
        self._beside.clear()
        self._voices.count(self._voice[first], -1, -len(said.text))
        passages = _passages(said)
        self._size -= len(passages)
        for passage, worths in enumerate(passages, first):
            for number in worths:
                found = self._postings[number]
                at = bisect_left(found[0], passage)
                del found[0][at], found[1][at]
                if not found[0]:
                    del self._postings[number]

    def rebuild(self, texts: Iterable[Said]) -> None:
        """Forgets everything, then adds these."""
        self._clear()
        self.add(texts)

    def search(self, question: str, most: int, *, within: str | None = None) -> list[Hit]:
        """The best texts, best first; none that shares nothing with the question.

        Among equals the newest comes first, then the smaller id. ``within``: of this only.
        """
        asked = self._asked(question)
        scores = self._scores(asked, most, within) if most > 0 else {}
        if not scores:
            return []
        best = self._best(scores, asked)
        bar = heapq.nlargest(most, best.values())[-1]
        ranked = sorted(
            (-total, -said.at_ms, said.id, first)
            for first, total in best.items()
            if total >= bar and (said := self._texts[first])
        )
        full = FULL * math.fsum(asked.values())
        return [
            Hit(self._texts[first], min(1.0, -total / full), self._best_passage(first, scores))
            for total, _, _, first in ranked[:most]
        ]

    def _best(self, scores: Mapping[int, float], asked: Mapping[int, float]) -> dict[int, float]:
        """What texts are worth: what their best passage is, as much as its speaker counts."""
        home, voice, weight = self._home, self._voice, self._voices.weights(asked)
        best: dict[int, float] = {}
        for passage, score in scores.items():
            first, total = home[passage], score * weight[voice[passage]]
            if total > best.get(first, 0.0):
                best[first] = total
        return best

    def _best_passage(self, first: int, scores: Mapping[int, float]) -> int:
        passages = range(first, bisect_right(self._home, first))
        return max(passages, key=lambda at: scores.get(at, 0.0)) - first

    def _asked(self, question: str) -> dict[int, float]:
        """The numbers of a question and what each weighs, the heaviest first."""
        rest, turns = turns_named(question)
        weighed = {each: self._rarity(each) for each in turns}
        for each in numbers(rest, asked=True):
            if each not in weighed:
                weighed[each] = self._rarity(each) * telling(each)
        return dict(sorted(weighed.items(), key=lambda each: (-each[1], each[0])))

    def _found(self, number: int) -> Postings:
        return self._postings.get(number, _NONE)

    def _rarity(self, number: int) -> float:
        """Lucene's idf, which is never negative."""
        found = len(self._found(number)[0])
        return math.log(1 + (self._size - found + 0.5) / (found + 0.5))

    def _scores(
        self, asked: Mapping[int, float], most: int, within: str | None
    ) -> dict[int, float]:
        """What each passage is worth, before it counts who says it."""
        if within is not None:
            # Who asks for one session finds what is there, be it for a common word.
            most = len(self._home)
        if most <= 0 or not self._home:
            return {}
        scores: dict[int, float] = {}
        heaviest, left = max(asked.values(), default=0.0), math.fsum(asked.values())
        for number, weight in asked.items():
            enough = len(scores) >= _ENOUGH * most
            if enough and weight < _FAINT * heaviest:
                break
            found = self._found(number)
            common = len(found[0]) > _COMMON * math.sqrt(self._size)
            if enough and (common or left * FULL < heapq.nlargest(most, scores.values())[-1]):
                # What has none of the words before is out of reach of the best.
                self._rank(scores, found, weight)
            else:
                light = common or weight < _LIGHT * heaviest
                self._tell(scores, found, weight, {} if light else self._lent(found))
            left -= weight
        if within is None:
            return scores
        voice, voices = self._voice, self._voices.within(within)
        return {at: score for at, score in scores.items() if voice[at] in voices}

    @staticmethod
    def _rank(scores: dict[int, float], found: Postings, weight: float) -> None:
        """Adds to the passages that other numbers found."""
        for at, worth in zip(*found, strict=True):
            if at in scores:
                scores[at] += weight * abs(worth)

    @staticmethod
    def _tell(
        scores: dict[int, float], found: Postings, weight: float, lent: dict[int, float]
    ) -> None:
        """Adds to the passages that a number is found in, and to those that it is lent to."""
        get = scores.get
        for at, worth in zip(*found, strict=True):
            told = 1 - (1 - abs(worth)) * (1 - lent.pop(at)) if at in lent else abs(worth)
            scores[at] = get(at, 0.0) + weight * told
        for at, near in lent.items():
            scores[at] = get(at, 0.0) + weight * near

    def _lent(self, found: Postings) -> dict[int, float]:
        """What texts that say something lend to the first passages of those beside them."""
        lent: dict[int, int] = {}
        home, beside, get = self._home, self._beside, lent.get
        last, most = _NOWHERE, 0.0
        for at, worth in zip(*found, strict=True):
            if home[at] != last:
                last, most = home[at], 0.0
            if worth > most:
                # A text lends what its best passage does: only the difference is new.
                more, most = worth - most, worth
                for near, share in beside[last]:
                    lent[near] = get(near, 0) + int(share * more)
        limit = int(BESIDE * _UNIT)
        return {at: min(near, limit) / _UNIT for at, near in lent.items()}


class _Beside(dict[int, tuple[tuple[int, float], ...]]):
    """The texts beside each, and what it lends them: found out when it is asked for."""

    def __init__(self, slots: Sequence[int], at: Mapping[int, int], lends: Sequence[float]) -> None:
        super().__init__()
        self._slots, self._at, self._lends = slots, at, lends

    def __missing__(self, first: int) -> tuple[tuple[int, float], ...]:
        slot, unit = self._slots[first], self._lends[first] * _UNIT
        found = [(self._at.get(slot + step), share * unit) for step, share in _STEPS]
        stands = self._at.get(slot) == first
        self[first] = tuple((near, lent) for near, lent in found if stands and near is not None)
        return self[first]


_STEPS: Final = ((1, CLOSE), (-1, FAR), (2, FAR))
_NONE: Final[Postings] = (array("I"), array("f"))


def _passages(said: Said) -> list[Worths]:
    """What each number is worth in each passage of a text; below 0 if it is known, not said."""
    known = dict.fromkeys(numbers(f"{said.who} {said.about}"), -1)
    if said.seq is not None:
        known[turn_number(said.seq)] = -1
    return [_worths(part, known) for part in split(said.text)]


def _worths(passage: str, known: Mapping[int, int]) -> Worths:
    told = Counter(numbers(passage))
    damping = DAMPING + (told.total() + len(known)) / LENGTH
    tells = ASKING if asks(passage) else 1.0
    every = {**known, **told}
    return {number: tells * times / (abs(times) + damping) for number, times in every.items()}
