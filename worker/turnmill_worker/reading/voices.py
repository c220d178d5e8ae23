"""How much words count by who says them: what is said in passing counts less."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from turnmill_worker.reading.asking import numbers

__all__ = ["RESULT", "Voices"]

RESULT: Final = "tool"
"""Who says what a tool returned."""

LEAST: Final = 0.4
"""What an assistant's words count at least, however long its answers are."""

BRIEF: Final = 200
"""Characters: turns of this mean length are not long, however short the others are."""

OTHERS: Final = 0.6
"""What turns of others count when a question names somebody who speaks."""

_ANSWERING: Final = frozenset({"assistant", RESULT})
_PEOPLE: Final = "user"


class _Voice(NamedTuple):
    who: str
    talk: str
    within: str

    @property
    def side(self) -> tuple[str, str]:
        return self.talk, self.who if self.who in _ANSWERING else _PEOPLE


class Voices:
    """Who says each text, by numbers: what somebody said in one conversation has one number.

    A user says in a line what an answer of two pages repeats. So the words of an assistant and of
    tools count less the longer their texts are than those of whom they answer. Between people, who
    are known by their names, and for notes and summaries, nothing counts less.
    """

    def __init__(self) -> None:
        self._voices: list[_Voice] = []
        self._numbers: dict[_Voice, int] = {}
        self._texts: Counter[tuple[str, str]] = Counter()
        self._length: Counter[tuple[str, str]] = Counter()
        self._named: dict[int, Counter[str]] = {}

    def number(self, who: str, talk: str, within: str) -> int:
        """The number of a voice; ``talk`` is "" for what nobody says to anybody."""
        voice = _Voice(who, talk, within)
        number = self._numbers.setdefault(voice, len(self._voices))
        if number == len(self._voices):
            self._voices.append(voice)
        return number

    def count(self, number: int, texts: int, length: int) -> None:
        """Notes that a voice has so many texts more, of so many characters."""
        voice = self._voices[number]
        self._texts[voice.side] += texts
        self._length[voice.side] += length
        if voice.talk and voice.who not in _ANSWERING | {_PEOPLE}:
            for name in set(numbers(voice.who)):
                self._named.setdefault(name, Counter())[voice.who] += texts

    def within(self, name: str) -> frozenset[int]:
        """The voices of what a search is limited to."""
        return frozenset(at for at, voice in enumerate(self._voices) if voice.within == name)

    def weights(self, asked: Iterable[int]) -> dict[int, float]:
        """What each voice counts for a question with these numbers; found out when asked for."""
        named = [self._named[number] for number in asked if number in self._named]
        return _Weights(self, frozenset(who for own in named for who in own if own[who]))

    def weight(self, number: int, named: frozenset[str]) -> float:
        """More than 0, at most 1. ``named``: whom a question names, of those that speak."""
        voice = self._voices[number]
        weight = OTHERS if named and voice.talk and voice.who not in named else 1.0
        side, people = voice.side, (voice.talk, _PEOPLE)
        if side == people or not (voice.talk and self._texts[people] and self._length[side]):
            return weight
        mean = max(self._length[people] / self._texts[people], BRIEF)
        longer = self._length[side] / self._texts[side] / mean
        return weight * max(LEAST, min(1.0, math.sqrt(1 / longer)))


class _Weights(dict[int, float]):
    def __init__(self, voices: Voices, named: frozenset[str]) -> None:
        super().__init__()
        self._voices, self._whom = voices, named

    def __missing__(self, number: int) -> float:
        weight = self[number] = self._voices.weight(number, self._whom)
        return weight
