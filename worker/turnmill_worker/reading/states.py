"""Lists that a tool is handed, or hands back, whole each time: plans. Only the newest counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.passages import Reading

Place = tuple[int, int, int]
"""A turn, and groups of it: the first, and the one behind the last."""

_MOST: Final = 8
"""Lists that are remembered, and places of each: the newest."""


class State(NamedTuple):
    """A list as it was handed over last.

    Attributes:
        again: how many times it was the same list, with other states.
        places: where it stands, and what was answered to it.
    """

    seq: int
    tool: str
    items: tuple[tuple[str, str], ...]
    places: list[Place]
    again: int

    def text(self) -> str:
        """The list in one line."""
        return f"{self.seq} {self.tool}: " + "; ".join(
            f"{text} = {state}" for text, state in self.items
        )


@dataclass(slots=True)
class States:
    """The lists of a session.

    Attributes:
        found: every list of each tool that later turns may not have made old; the newest last.
        pending: calls that handed one over and were not answered, with their tool and turn.
        whole: tools whose newest list stands.
    """

    found: dict[str, list[State]] = field(default_factory=dict)
    pending: dict[str, tuple[str, int]] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)

    def add(self, reading: Reading) -> None:
        """Looks for a list in a message's calls and results, and for what is answered."""
        for cells in reading.cells:
            place = (reading.seq, cells.first, cells.last)
            tool = cells.tool or (
                self.pending[cells.call][0] if cells.call in self.pending else reading.who
            )
            if cells.items:
                self._handed(
                    State(reading.seq, tool, cells.items, [place], 0), found=not cells.tool
                )
                self.pending[cells.call] = tool, reading.seq
            elif not cells.tool and cells.call in self.pending and cells.whole:
                _, seq = self.pending.pop(cells.call)
                for state in self.found.get(tool, ()):
                    if state.seq == seq:
                        state.places.append(place)

    def _handed(self, state: State, *, found: bool) -> None:
        known = self.found.setdefault(state.tool, [])
        # What is found twice is no state: a tool that tells one tells what has changed.
        same = bool(known) and found and known[-1].items == state.items
        if known and not same and _overlap(known[-1].items, state.items):
            state = state._replace(again=known[-1].again + 1)
        else:
            known.clear()
        known.append(state)
        del known[:-_MOST]

    def settle(self, until: int, budget: int, count: Callable[[str], int]) -> set[Place]:
        """Takes lists up to a turn if there is room for them; returns where none need stand."""
        gone: set[Place] = set()
        self.whole = []
        for tool, states in self.found.items():
            covered = [state for state in states if state.seq <= until]
            for old in states[:-1]:
                gone.update(old.places)
            if not covered or covered[-1] is not states[-1] or not covered[-1].again:
                continue
            if (cost := count(f"\n{covered[-1].text()}")) <= budget:
                budget -= cost
                self.whole.append(tool)
                gone.update(covered[-1].places)
        return gone

    def standing(self, until: int) -> str:
        """The lists that were taken, but for those that a newer turn hands over anew."""
        kept = [self.found[tool][-1] for tool in self.whole if self.found.get(tool)]
        return "\n".join(state.text() for state in kept if state.seq <= until)

    def trim(self, until: int) -> None:
        """Forgets lists that a newer one replaced and that are not in the log any more."""
        for states in self.found.values():
            states[:-1] = [state for state in states[:-1] if state.seq > until]
        self.pending = dict(list(self.pending.items())[-_MOST:])

    def up_to(self, seq: int) -> None:
        """Forgets everything that came from later turns."""
        for tool, states in list(self.found.items()):
            kept = [state for state in states if state.seq <= seq]
            for state in kept:
                state.places[:] = [place for place in state.places if place[0] <= seq]
            self.found[tool] = kept
        self.found = {tool: states for tool, states in self.found.items() if states}
        self.pending = {call: own for call, own in self.pending.items() if own[1] <= seq}
        self.whole = [tool for tool in self.whole if tool in self.found]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "found": list(self.found.values()),
            "pending": [[call, *own] for call, own in self.pending.items()],
            "whole": self.whole,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> States:
        """What was stored."""
        found: dict[str, list[State]] = {}
        for states in stored["found"]:
            for seq, tool, items, places, again in states:
                own = tuple((text, state) for text, state in items)
                found.setdefault(tool, []).append(
                    State(seq, tool, own, [(a, b, c) for a, b, c in places], again)
                )
        pending = {call: (tool, seq) for call, tool, seq in stored["pending"]}
        return cls(found, pending, list(stored["whole"]))


def _overlap(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> bool:
    ours, theirs = {text for text, _ in before}, {text for text, _ in after}
    return 2 * len(ours & theirs) >= min(len(ours), len(theirs))
