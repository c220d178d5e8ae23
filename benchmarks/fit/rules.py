"""Fits `rules.bin`: what sounds like a rule, by sentences and by their clauses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from benchmarks.fit import labelled
from benchmarks.fit.labelled import Message, bare
from benchmarks.fit.regression import Example, fitted
from turnmill_worker.reading import linear, rules
from turnmill_worker.reading.passages import sentences

STRENGTH = 8.0

LOGS = ("logs", "kindness", "labelled")
"""What the files begin with that hold whole messages of people as they come, few of them rules."""

SCARCE, OTHERS_BESIDE = 2.0, 3.5
"""What an example weighs of the kinds that are few: sessions, logs, other languages; and, of the
last, one that is no rule."""

CLAUSE = 0.1
"""What a clause weighs beside whole sentences, which are what is asked about."""

OF_SENTENCE, OF_CLAUSE, NOTHING = 0.3, 0.5, 0.02
"""The share that must be of the rule for a sentence, or for a clause; what is in between is left
out."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_JOINT = re.compile(rf"(?:[,;:]| [-–—]+)\s+|[，、；：]|(?<=[{_UNSPACED}])\s+(?=[{_UNSPACED}])")
_SHORTEST, _SHORTEST_BESIDE = 12, 4


def clauses(sentence: str) -> list[str]:
    """A sentence, and its clauses if it has several."""
    shortest = _SHORTEST if sentence.isascii() else _SHORTEST_BESIDE
    parts = [part for part in _JOINT.split(sentence) if len(part) >= shortest]
    return list(dict.fromkeys([sentence, *parts]))


def shares(message: Message) -> Iterator[tuple[str, bool, float]]:
    """Each sentence and clause: which of both it is, and how much of it is of the rule."""
    text, start = bare(message.text), 0
    for sentence in sentences(message.text):
        end = start + len(bare(sentence))
        for number, clause in enumerate(clauses(sentence)):
            said = bare(clause)
            at = text.find(said, start, end)
            if said and at >= 0:
                yield clause, number == 0, message.share(at, at + len(said))
        start = end


def examples() -> Iterator[Example]:
    """All that is fitted to."""
    seen: set[tuple[str, bool]] = set()
    for message, weight, other in _weighed():
        for text, whole, share in shares(message):
            least = OF_SENTENCE if whole else OF_CLAUSE
            is_rule = share >= least
            if NOTHING < share < least or (text, is_rule) in seen:
                continue
            seen.add((text, is_rule))
            found = rules.buckets(text)
            kind = (weight if is_rule else other) * (1.0 if whole else CLAUSE)
            yield Example(found, 1 / math.sqrt(len(found)), is_rule, kind)


def _weighed() -> Iterator[tuple[Message, float, float]]:
    """Messages, and what their sentences weigh that are of rules, and that are not."""
    for name, messages in labelled.messages(labelled.FITTED).items():
        weight = SCARCE if name.startswith(LOGS) else 1.0
        yield from ((each, weight, weight) for each in messages)
    yield from ((each, 1.0, 1.0) for each in labelled.handwritten())
    for messages in labelled.messages(labelled.FITTED / labelled.BESIDE).values():
        yield from ((each, SCARCE, SCARCE * OTHERS_BESIDE) for each in messages)
    for whole in labelled.sessions("fitted"):
        yield from ((each, SCARCE, SCARCE) for each in labelled.typed(whole))


def weights() -> bytes:
    """The weights, as `reading.rules` reads them."""
    return fitted(list(examples()), size=linear.MASK + 1, strength=STRENGTH, unit=linear.UNIT)
