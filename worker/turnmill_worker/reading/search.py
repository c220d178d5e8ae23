"""Finds the messages that meet a question: BM25 over the numbers that reading made.

A message is worth what its best part is: so many passages as people read at once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from turnmill_worker.reading.passages import ASSISTANT, USER, Reading, sentences
from turnmill_worker.reading.words import KEY, KIND, NAME, PLAIN, concepts

K1, B = 0.9, 0.4
PART: Final = 180
"""Tokens of a part."""

BESIDE: Final = 0.35
"""What a word counts that stands in the turn before or after only."""

USUAL: Final = 0.25
"""What a word that everybody says counts against another one as rare."""

OTHERS: Final = 0.6
"""What turns of others count when a question names somebody who speaks."""

ASKING: Final = 0.8
LEAST: Final = 0.4
BRIEF: Final = 50


class Index:
    """Messages by the words and values they say."""

    def __init__(self, readings: Iterable[Reading], about: Mapping[int, str] = {}) -> None:
        """``about``: what is known of a message by its number, like the day it is of."""
        self.readings = [each for each in readings if each.passages]
        self.postings: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.homes: list[int] = []
        self.lengths: list[int] = []
        for at, each in enumerate(self.readings):
            known = _asked(f"{each.who} {about.get(each.seq, '')}")
            for part in _parts(each):
                part.update(known.keys() - part.keys())
                for number, times in part.items():
                    self.postings[number].append((len(self.homes), times))
                self.homes.append(at)
                self.lengths.append(sum(part.values()))
        self.usual = sum(self.lengths) / max(len(self.lengths), 1) or 1
        self.voices = {each.who: frozenset(_asked(each.who)) for each in self.readings}
        self.assistant = _weight_of_assistant(self.readings)

    def search(self, question: str, most: int) -> list[Reading]:
        """The best messages, best first; none that shares no word with the question."""
        asked = _asked(question)
        named = {who for who, ids in self.voices.items() if not ids.isdisjoint(asked)}
        own: dict[int, float] = defaultdict(float)
        near: dict[int, float] = defaultdict(float)
        for number in asked:
            hit = self._worth(number)
            best: dict[int, float] = {}
            for part, worth in hit.items():
                own[part] += worth
                best[self.homes[part]] = max(worth, best.get(self.homes[part], 0.0))
            for at, worth in best.items():
                for beside in (at - 1, at + 1):
                    if beside not in best:
                        near[beside] += worth / 2 if {at - 1, at + 1} <= best.keys() else worth
        scores: dict[int, float] = {}
        for part, worth in own.items():
            at = self.homes[part]
            each = self.readings[at]
            worth = (worth + BESIDE * near.get(at, 0.0)) * (ASKING if each.asks and len(each.passages) == 1 else 1.0)
            worth *= self.assistant if each.who == "assistant" else 1.0
            worth *= OTHERS if named and each.who not in named else 1.0
            scores[at] = max(worth, scores.get(at, 0.0))
        return [self.readings[at] for at in sorted(scores, key=lambda at: (-scores[at], -at))[:most]]

    def _worth(self, number: int) -> dict[int, float]:
        """What a word is worth in each part that says it."""
        found = self.postings.get(number, ())
        rarity = math.log(1 + (len(self.homes) - len(found) + 0.5) / (len(found) + 0.5))
        rarity *= USUAL if number & KIND == PLAIN else 1.0
        return {
            part: rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * self.lengths[part] / self.usual))
            for part, times in found
        }


def _asked(text: str) -> dict[int, None]:
    """The numbers of a question, each once; names as words."""
    told = (concepts(said, prose=False) for said in sentences(text))
    return dict.fromkeys(number for ids in told for number in ids)


def _parts(reading: Reading) -> Iterator[Counter[int]]:
    """How often a message says what, part by part."""
    part: Counter[int] = Counter()
    tokens = 0
    for _, _, ids in reading.labels:
        part.update(ids)
    for own in reading.passages:
        if tokens and tokens + own.tokens > PART:
            yield part
            part, tokens = Counter(), 0
        part.update([each for each in own.ids if each & KIND not in {NAME, KEY}])
        tokens += own.tokens
    yield part


def _weight_of_assistant(readings: Iterable[Reading]) -> float:
    """What an assistant's words count: less, the longer its turns are than the user's."""
    lengths: dict[int, list[int]] = {USER: [], ASSISTANT: []}
    for each in readings:
        if each.role in lengths:
            lengths[each.role].append(sum(own.tokens for own in each.passages))
    user, assistant = ((sum(own) / len(own)) if own else 0.0 for own in lengths.values())
    return max(LEAST, min(1.0, math.sqrt(max(user, BRIEF) / assistant))) if assistant else 1.0
