"""Which turns stand next to which."""

from __future__ import annotations

from array import array
from typing import Final

from turnmill_worker.ports.records import Memory

__all__ = ["Neighbours", "conversation_of"]

_NOBODY: Final = -1


class Neighbours:
    """The numbers of the memories right before and right after each one; below 0 for none.

    Turns are neighbours in one incarnation of a session, at positions that differ by one, tools
    left out. Of two that claim one position the first has it, and the second stands alone.

    Attributes:
        before, after: by number of a memory.
    """

    def __init__(self) -> None:
        self.before = array("i")
        self.after = array("i")
        self._places: dict[str, dict[int, int]] = {}

    def join(self, number: int, memory: Memory, *, passages: int = 1) -> None:
        """Gives a memory its place; it takes as many of the numbers as it has passages."""
        nobody = [_NOBODY] * passages
        self.before.extend(nobody)
        self.after.extend(nobody)
        if memory.kind != "turn":
            return
        places = self._places.setdefault(conversation_of(memory), {})
        if places.setdefault(memory.position, number) == number:
            self._link(places.get(memory.position - 1, _NOBODY), number)
            self._link(number, places.get(memory.position + 1, _NOBODY))

    def part(self, number: int, memory: Memory) -> None:
        """Takes a memory out; those around it do not become neighbours."""
        if (before := self.before[number]) >= 0:
            self.after[before] = _NOBODY
        if (after := self.after[number]) >= 0:
            self.before[after] = _NOBODY
        name = conversation_of(memory)
        places = self._places.get(name, {})
        if memory.kind == "turn" and places.get(memory.position) == number:
            del places[memory.position]
            if not places:
                del self._places[name]

    def _link(self, earlier: int, later: int) -> None:
        if earlier >= 0 and later >= 0:
            self.after[earlier] = later
            self.before[later] = earlier


def conversation_of(memory: Memory) -> str:
    """One name for all turns of one incarnation of a session: their id without the seq."""
    return f"{memory.session} {memory.id.rpartition(':')[0]}"
