"""What is said again and again: lists that a tool is handed whole each time, and sentences of one make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.words import KIND, PLAIN

Place = tuple[int, int, int]

OFTEN: Final = 3
"""Times from which on sentences that differ in values only are of one make."""

KEPT: Final = 256
"""Sentences of one make that are kept, the newest."""

FEW: Final = 2
"""Words of such a sentence that say something."""

SENTENCES: Final = 6
"""Of a message; longer ones are no announcements."""

MOST: Final = 240
_SLOT = re.compile(r"\b(?=[^\W\d_]*(?:[\d_/@#+%-]|\.\w))[\w./@#+%-]*\w\b|\b[A-Z]{2,}\b")


_COUNTER = re.compile(r"^\W*\d+[.)]\s+")


class State(NamedTuple):
    """A list as it was handed over last; ``again``: how many times it was the same list."""

    seq: int
    tool: str
    items: tuple[tuple[str, str], ...]
    places: list[Place]
    again: int

    def text(self) -> str:
        """The list in one line."""
        return f"{self.seq} {self.tool}: " + "; ".join(f"{text} = {state}" for text, state in self.items)


@dataclass(slots=True)
class States:
    """The lists of a session.

    Attributes:
        newest: of each tool.
        left: where older ones stand, and what was answered to them.
        whole: tools whose newest list stands.
    """

    newest: dict[str, State] = field(default_factory=dict)
    left: set[Place] = field(default_factory=set)
    pending: dict[str, list[Place]] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)

    def stored(self) -> Any:
        return {"newest": {k: list(v) for k, v in self.newest.items()}, "left": sorted(self.left), "whole": self.whole}

    @classmethod
    def restored(cls, values: Any) -> States:
        if not values:
            return cls()
        return cls({k: State(v[0], v[1], tuple(map(tuple, v[2])), list(map(tuple, v[3])), v[4]) for k, v in values["newest"].items()}, set(map(tuple, values["left"])), {}, list(values["whole"]))

    @staticmethod
    def up_to(values: Any, watermark: int) -> Any:
        return values and {**values, "newest": {k: v for k, v in values["newest"].items() if v[0] <= watermark}}

    def add(self, reading: Reading) -> None:
        """Looks for a list in a message's calls, and for what is answered."""
        for cells in reading.cells:
            place = (reading.seq, cells.first, cells.last)
            if cells.items:
                before = self.newest.get(cells.tool)
                same = bool(before) and _overlap(before.items, cells.items)
                if same:
                    self.left.update(before.places)
                state = State(reading.seq, cells.tool, cells.items, [place], before.again + 1 if same else 0)
                self.newest[cells.tool], self.pending[cells.call] = state, state.places
            elif not cells.tool and (places := self.pending.pop(cells.call, None)) and cells.whole:
                places.append(place)

    def settle(self, until: int, budget: int, count: Callable[[str], int]) -> set[Place]:
        """Takes lists as old as a turn, if there is room for them whole; returns where none need stand."""
        gone, self.whole = set(self.left), []
        for tool, state in self.newest.items():
            if state.again and state.seq <= until and (cost := count(f"\n{state.text()}")) <= budget:
                budget -= cost
                self.whole.append(tool)
                gone.update(state.places)
        return gone

    def standing(self, until: int) -> str:
        """The lists that were taken, but for those that a newer turn hands over anew."""
        kept = [self.newest[tool] for tool in self.whole]
        return "\n".join(state.text() for state in kept if state.seq <= until)


def _overlap(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> bool:
    ours, theirs = {text for text, _ in before}, {text for text, _ in after}
    return 2 * len(ours & theirs) >= min(len(ours), len(theirs))


def _says_little(own: r.Passage) -> bool:
    """Whether a sentence has so few words that say something that it can only go on with what was."""
    return sum(each & KIND != PLAIN for each in own.ids) <= FEW


@dataclass(slots=True)
class Makes:
    """Sentences by their make: what they are without their values.

    Attributes:
        times: how often each make was met.
        echoes: sentences all of whose values stand in the calls beside them, by make.
        said: those with values of their own, by make: turn, text and values.
    """

    times: Counter[str] = field(default_factory=Counter)
    echoes: dict[str, str] = field(default_factory=dict)
    said: dict[str, list[tuple[int, str, tuple[str, ...]]]] = field(default_factory=dict)

    def stored(self) -> Any:
        return {"times": dict(self.times), "echoes": self.echoes, "said": self.said}

    @classmethod
    def restored(cls, values: Any) -> Makes:
        if not values:
            return cls()
        return cls(Counter(values["times"]), dict(values["echoes"]), {k: [(a, b, tuple(c)) for a, b, c in v] for k, v in values["said"].items()})

    @staticmethod
    def up_to(values: Any, watermark: int) -> Any:
        return values

    def add(self, reading: Reading) -> None:
        """Counts the sentences of a message, if it is a short one."""
        if sum(own.source < r.SYSTEM for own in reading.passages) > SENTENCES:
            return
        passed = [own for cells in reading.cells for own in cells.fields.values() if len(own) > 1]
        for own in reading.passages:
            prose = own.form & r.PROSE
            if len(own.text) > MOST or own.source != r.ASSISTANT and not (prose and own.source == r.USER):
                continue
            text = own.text
            for value in passed:
                text = text.replace(value, "*")
            slots = tuple(_SLOT.findall(_COUNTER.sub("", text)))
            make = f"{own.source}{_SLOT.sub('*', text)}"
            self.times[make] += 1
            if not slots and (text != own.text or prose and _says_little(own)):
                self.echoes[own.text] = make
            elif own.source == r.ASSISTANT and len(slots) > 1:
                self.said.setdefault(make, []).append((reading.seq, own.text, slots))

    def echoed(self, text: str) -> bool:
        """Whether a sentence says nothing but what stands beside it, as others of its make do."""
        return self.times[self.echoes.get(text, "")] >= OFTEN

    def often(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """The sentences of makes that were met often, oldest first."""
        return sorted(own for make, found in self.said.items() if self.times[make] >= OFTEN for own in found)

    def forget(self, standing: Container[str]) -> None:
        """Drops sentences that nobody can choose any more."""
        self.echoes = {text: make for text, make in self.echoes.items() if text in standing}
        for make in list(self.said):
            often = self.times[make] >= OFTEN
            self.said[make] = self.said[make][-KEPT:] if often else [own for own in self.said[make] if own[1] in standing]
            if not self.said[make]:
                del self.said[make]
