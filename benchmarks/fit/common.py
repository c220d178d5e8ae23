"""Counts `common.bin`: how common the commonest stems are, in each language."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

import Stemmer

from benchmarks.fit import labelled
from benchmarks.fit.labelled import Message
from turnmill_worker.reading import words

ENGLISH = "english"
UNSPACED = frozenset({"chinese", "japanese", "korean"})
"""Languages of which no words are counted."""

STEPS, MOST, HALVINGS = 8, 72, 9
"""Steps for each halving; the steps of what every message has; and how rare the rarest are."""

FEWEST = 8
"""Messages that must have a stem."""

_WORD = re.compile(r"[^\W_]+")


def weights() -> bytes:
    """The stems' numbers, and how common each is, as `reading.words` reads them."""
    having, whole = _counted()
    steps: dict[str, int] = {}
    for language, stems in having.items():
        for stem, times in stems.items():
            share = times / whole[language]
            # English words stand in messages of any language.
            borrowed = language != ENGLISH and having[ENGLISH][stem] >= FEWEST
            if times >= FEWEST and share > 2**-HALVINGS and not borrowed:
                step = round(MOST + STEPS * math.log2(share))
                steps[stem] = max(steps.get(stem, 0), step)
    numbered = {words.number(words.WORD, stem): step for stem, step in steps.items() if step > 0}
    table = sorted(numbered.items())
    numbers = array("I", [number for number, _ in table])
    return numbers.tobytes() + bytes(step for _, step in table)


def _counted() -> tuple[dict[str, Counter[str]], Counter[str]]:
    """In how many messages of each language a stem stands, and how many messages there are."""
    stemmed = Stemmer.Stemmer("english", 0).stemWord
    having: dict[str, Counter[str]] = defaultdict(Counter)
    whole: Counter[str] = Counter()
    for language, message in _spoken():
        whole[language] += 1
        found = {stemmed(word) for word in _WORD.findall(message.text.lower())}
        having[language].update(stem for stem in found if not stem.isdigit())
    return having, whole


def _spoken() -> Iterator[tuple[str, Message]]:
    sessions = [labelled.typed(each) for each in labelled.sessions("fitted")]
    english = [*labelled.messages(labelled.FITTED).values(), *sessions]
    yield from (
        (ENGLISH, each) for each in (*chain.from_iterable(english), *labelled.handwritten())
    )
    for name, messages in labelled.messages(labelled.FITTED / labelled.BESIDE).items():
        yield from ((name, each) for each in messages if name not in UNSPACED)
