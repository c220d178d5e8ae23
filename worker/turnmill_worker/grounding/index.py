"""One namespace's memories, as `reading.search` finds them."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from turnmill.contract.names import SessionId
from turnmill_worker.ports.records import Memory
from turnmill_worker.reading.asking import excerpt
from turnmill_worker.reading.search import Index, Said
from turnmill_worker.reading.voices import RESULT

__all__ = ["Found", "MemoryIndex"]

_DAY_MS: Final = 86_400_000
# Not from `calendar` or `strftime`, whose names depend on the process's locale.
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A memory, and how well it meets the question: 0 to 1, as ``reading.search.Hit`` has it."""

    memory: Memory
    relevance: float
    passage: int = 0

    @property
    def text(self) -> str:
        """What to quote: of a long turn its best passage, of anything else all."""
        memory = self.memory
        return excerpt(memory.text, self.passage) if memory.kind == "turn" else memory.text


class MemoryIndex:
    """The memories of one namespace. Not thread-safe."""

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._memories: dict[str, Memory] = {}
        self._index = Index()
        self.add(memories)

    def __len__(self) -> int:
        return len(self._index)

    def add(self, memories: Iterable[Memory]) -> None:
        """Adds memories; a memory with a known id replaces the earlier one."""
        for memory in memories:
            self._memories[memory.id] = memory
            self._index.add((_said(memory),))

    def search(self, query: str, k: int, *, session: SessionId | None = None) -> list[Found]:
        """The at most ``k`` best memories, of all sessions or of one; see ``Index.search``."""
        hits = self._index.search(query, k, within=session)
        return [Found(self._memories[hit.said.id], hit.relevance, hit.passage) for hit in hits]


def _said(memory: Memory) -> Said:
    turn = memory.kind == "turn"
    return Said(
        id=memory.id,
        text=memory.text,
        who=memory.speaker,
        about=_day(memory.at_ms // _DAY_MS),
        # All turns of one incarnation of a session: their id without the seq.
        talk=f"{memory.session} {memory.id.rpartition(':')[0]}" if turn else "",
        place=memory.position if turn and memory.speaker != RESULT else None,
        seq=memory.seq,
        at_ms=memory.at_ms,
        within=memory.session or "",
    )


@functools.lru_cache(maxsize=4096)
def _day(days: int) -> str:
    """How people name a day (UTC); nothing for the epoch itself, which stands for not known."""
    try:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    except OverflowError:
        return ""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}" if days > 0 else ""
