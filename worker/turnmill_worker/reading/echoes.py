"""Sentences that say nothing but what stands beside them: announcements of a call, go-ons.

Where tools are called, a short sentence without values of its own says nothing if the few words it
has are those that such sentences have again and again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Passage, Reading
from turnmill_worker.reading.words import (
    CAPS,
    CODE,
    KIND,
    NAME,
    NUMBER,
    WORD,
    Packed,
    Packing,
    number,
    packed,
)

OFTEN: Final = 3
"""Sentences from which on a word is one of those that are said again and again."""

FEW, GOES_ON, BESIDE_A_CALL = 2, 3, 4
"""Words of its own that a sentence may have that says nothing; one after which calls go on as
before; and one that announces a call."""

SENTENCES: Final = 4
"""Of a message; longer ones are no announcements."""

LOOP: Final = 6
"""Calls from which on a session works through something."""

MOST: Final = 160
KEPT: Final = 1024
_VALUES: Final = frozenset({CODE, NUMBER, CAPS})


class Saying(NamedTuple):
    """A sentence without values: its turn, how many words of its own it may have, and its words."""

    seq: int
    most: int
    words: tuple[int, ...]


@dataclass(slots=True)
class Makes:
    """Short sentences of people, by the words they are made of.

    Attributes:
        sayings: by their text; of those that were said twice, the first.
        times: in how many sentences each word stands.
            calls: turns that called something, the first of them.
        tools: how often each was called.
        since: sentences since the last call.
    """

    sayings: dict[str, Saying] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    calls: list[int] = field(default_factory=list)
    tools: Counter[str] = field(default_factory=Counter)
    since: list[str] = field(default_factory=list)

    def add(self, reading: Reading) -> None:
        """Takes over the sentences of a message, if it is a short one."""
        called = [cells.tool for cells in reading.cells if cells.tool]
        if called and len(self.calls) < LOOP:
            self.calls.append(reading.seq)
        if called and self.tools[called[0]] >= OFTEN:
            for text in self.since:
                before = self.sayings[text]
                self.sayings[text] = before._replace(most=max(before.most, GOES_ON))
        if called:
            self.since = []
        self.tools.update(called)
        said = [own for own in reading.passages if own.source in {r.USER, r.ASSISTANT}]
        if len(said) > SENTENCES:
            return
        passed = _passed(reading)
        for own in said:
            if (
                len(own.text) > MOST
                or own.rule > 0
                or (own.source == r.USER and not own.form & r.PROSE)
            ):
                continue
            words = _without_values(own, passed)
            if words is None:
                continue
            self.times.update(words)
            self.sayings.setdefault(
                own.text, Saying(reading.seq, BESIDE_A_CALL if called else FEW, words)
            )
            if not called:
                self.since.append(own.text)

    def echoed(self, text: str) -> bool:
        """Whether a sentence says nothing but what stands beside it."""
        own = self.sayings.get(text)
        if own is None or len(self.calls) < LOOP:
            return False
        rare = [word for word in own.words if self.times[word] < OFTEN]
        # Beside calls, names that such sentences have again and again are mere words.
        named = rare if own.most == BESIDE_A_CALL else own.words
        return len(rare) <= own.most and not any(word & KIND == NAME for word in named)

    def forget(self, standing: Container[str]) -> None:
        """Drops sentences that nobody can choose any more."""
        kept = [(text, own) for text, own in self.sayings.items() if text in standing]
        self.sayings = dict(kept[-KEPT:])
        self.since = [text for text in self.since if text in self.sayings]
        self.times = Counter(dict(self.times.most_common(4 * KEPT)))

    def up_to(self, seq: int) -> None:
        """Forgets everything that came from later turns."""
        later = [own for own in self.sayings.values() if own.seq > seq]
        for own in later:
            self.times.subtract(own.words)
        self.times = +self.times
        self.sayings = {text: own for text, own in self.sayings.items() if own.seq <= seq}
        self.calls = [when for when in self.calls if when <= seq]
        self.since = []

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        ids = Packing()
        return {
            "sayings": [
                [text, seq, most, ids.put(words)]
                for text, (seq, most, words) in self.sayings.items()
            ],
            "times": list(self.times.values()),
            "ids": [ids.text(), packed(self.times)],
            "calls": self.calls,
            "tools": list(self.tools.items()),
            "since": self.since,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Makes:
        """What was stored."""
        ids, counted = map(Packed, stored["ids"])
        return cls(
            {
                text: Saying(seq, most, ids.take(many))
                for text, seq, most, many in stored["sayings"]
            },
            Counter(dict(zip(counted.rest(), stored["times"], strict=True))),
            list(stored["calls"]),
            Counter(dict(stored["tools"])),
            list(stored["since"]),
        )


def _passed(reading: Reading) -> set[int]:
    """What the calls of a message pass, as values and as names."""
    ids = {each for own in reading.passages if own.source == r.CALL for each in own.ids}
    for cells in reading.cells if ids else ():
        for pair in cells.fields.items():
            ids.update(number(NAME, word.lower()) for word in _WORD.findall(" ".join(pair)))
    return ids


_WORD = re.compile(r"\w+")


def _without_values(own: Passage, passed: set[int]) -> tuple[int, ...] | None:
    """The words of a sentence; None if it has values that its calls do not pass."""
    ids = [each for each in own.ids if each not in passed]
    if any(each & KIND in _VALUES for each in ids):
        return None
    return tuple([each for each in ids if each & KIND in {WORD, NAME}])
