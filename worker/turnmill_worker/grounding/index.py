"""The default retriever: BM25 over one namespace's memories, in pure Python, without a model.

A memory is worth, for each different term of a question, the term's rarity times its best place:
in the memory itself, or in the turns around it at a discount, because the words of a question and
its answer are often said one turn apart. A term counts once however many places have it. `scoring`
and `postings` have the parameters, docs/grounding.md what each part is worth on real data.
"""

from __future__ import annotations

import datetime as dt
import functools
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from turnmill_worker.grounding.adjacent_turns import Neighbours
from turnmill_worker.grounding.postings import FULL, Postings
from turnmill_worker.grounding.scoring import Scoring
from turnmill_worker.grounding.terms import asks, terms
from turnmill_worker.ports.records import Memory

__all__ = ["Found", "MemoryIndex"]

_FEW: Final = 512
"""Gaps that removed memories may leave before the index is packed."""

_DAY_MS: Final = 86_400_000
# Not from `calendar`, whose names depend on the process's locale.
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A memory, and how well it meets the question: 0 to 1, comparable between questions.

    1 means that every term of the question is said there, as plainly as in a memory that says
    nothing else; a term no memory has counts against all of them.
    """

    memory: Memory
    relevance: float


class MemoryIndex:
    """The memories of one namespace. Keeping namespaces apart is its owner's task.

    Results depend on what is in it, never on the order it came in or on the process. Not
    thread-safe.
    """

    def __init__(self, memories: Iterable[Memory] = ()) -> None:
        self._clear()
        self.add(memories)

    def _clear(self) -> None:
        self._memories: list[Memory | None] = []
        self._numbers: dict[str, int] = {}
        self._neighbours = Neighbours()
        self._postings = Postings()
        self._scoring = Scoring(self._postings, self._neighbours)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._numbers

    def add(self, memories: Iterable[Memory]) -> None:
        """Adds memories; a memory with a known id replaces the earlier one."""
        for memory in memories:
            if (known := self._numbers.get(memory.id)) is not None:
                if self._memories[known] == memory:
                    continue
                self.remove((memory.id,))
            number = len(self._memories)
            self._memories.append(memory)
            self._numbers[memory.id] = number
            self._neighbours.join(number, memory)
            self._postings.add(number, terms(memory.text), _about(memory), asks=asks(memory.text))

    def remove(self, ids: Iterable[str]) -> None:
        """Forgets memories; unknown ids are ignored."""
        for memory_id in ids:
            number = self._numbers.pop(memory_id, None)
            memory = None if number is None else self._memories[number]
            if number is None or memory is None:
                continue
            self._postings.remove(number, terms(memory.text), _about(memory))
            self._neighbours.part(number, memory)
            self._memories[number] = None
        if len(self._memories) > 2 * len(self) + _FEW:
            self.rebuild(tuple(m for m in self._memories if m is not None))

    def rebuild(self, memories: Iterable[Memory]) -> None:
        """Forgets everything, then adds these."""
        self._clear()
        self.add(memories)

    def search(self, query: str, k: int) -> list[Found]:
        """The at most ``k`` most relevant memories, best first; none that shares no term.

        Among equals the newest comes first, then the smaller id.
        """
        asked = self._scoring.asked(query)
        scores = self._scoring.scores(asked, k) if k > 0 else {}
        if not scores:
            return []
        bar = heapq.nlargest(k, scores.values())[-1]
        best = heapq.nsmallest(
            k,
            (
                (-score, -memory.at_ms, memory.id, memory)
                for number, score in scores.items()
                if score >= bar and (memory := self._memories[number]) is not None
            ),
        )
        full = asked.weight * FULL
        return [Found(memory, min(1.0, -score / full)) for score, _, _, memory in best]


def _about(memory: Memory) -> list[str]:
    """Terms that are not said but known: who said it, and on what day (UTC)."""
    return [*terms(memory.speaker), *_day(memory.at_ms // _DAY_MS)]


@functools.lru_cache(maxsize=4096)
def _day(days: int) -> tuple[str, ...]:
    """How people name a day; nothing for the epoch itself, which stands for not known."""
    try:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    except OverflowError:
        return ()
    return tuple(terms(f"{day.day} {_MONTHS[day.month - 1]} {day.year}")) if days > 0 else ()
