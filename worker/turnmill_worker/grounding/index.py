"""The default retriever: BM25 over one namespace's memories, in pure Python, without a model.

A memory is searched passage by passage, and is worth what its best passage is. A passage is worth,
for each different term of a question, the term's rarity times how plainly it is said there or, at a
discount, in the turns around it: the words of a question and its answer are often said one turn
apart. The words of an assistant that answers at length weigh less. `scoring`, `postings` and
`voices` have the parameters, docs/grounding.md what each part is worth on real data.
"""

from __future__ import annotations

import datetime as dt
import functools
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from turnmill.contract.names import SessionId
from turnmill_worker.grounding.adjacent_turns import Neighbours
from turnmill_worker.grounding.passages import Passages, excerpt, split
from turnmill_worker.grounding.postings import FULL, Postings
from turnmill_worker.grounding.scoring import Scoring
from turnmill_worker.grounding.terms import asks, terms
from turnmill_worker.grounding.voices import Voices
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

    Attributes:
        passage: the number of its best passage, from 0.
    """

    memory: Memory
    relevance: float
    passage: int = 0

    @property
    def text(self) -> str:
        """What to quote: of a long turn its best passage, of anything else all."""
        memory = self.memory
        return excerpt(memory.text, self.passage) if memory.kind == "turn" else memory.text


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
        self._gaps = 0
        self._passages = Passages()
        self._neighbours = Neighbours()
        self._voices = Voices()
        self._postings = Postings()
        self._scoring = Scoring(self._postings, self._passages, self._neighbours, self._voices)

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
            self._join(memory)

    def _join(self, memory: Memory) -> None:
        texts = split(memory.text)
        passages = self._passages.add(len(texts))
        number = passages.start
        self._memories += [memory, *[None] * (len(texts) - 1)]
        self._numbers[memory.id] = number
        self._neighbours.join(number, memory, passages=len(texts))
        self._voices.join(memory, passages=len(texts))
        about = _about(memory)
        part = len(texts) > 1
        for passage, text in zip(passages, texts, strict=True):
            self._postings.add(passage, terms(text), about, asks=asks(text), part=part)

    def remove(self, ids: Iterable[str]) -> None:
        """Forgets memories; unknown ids are ignored."""
        for memory_id in ids:
            number = self._numbers.pop(memory_id, None)
            memory = None if number is None else self._memories[number]
            if number is not None and memory is not None:
                self._part(number, memory)
        if self._gaps > len(self) + _FEW:
            self.rebuild(tuple(m for m in self._memories if m is not None))

    def _part(self, number: int, memory: Memory) -> None:
        self._gaps += 1
        self._memories[number] = None
        about = _about(memory)
        for passage, text in zip(self._passages.of(number), split(memory.text), strict=True):
            self._postings.remove(passage, terms(text), about)
        self._neighbours.part(number, memory)
        self._voices.part(number, memory)

    def rebuild(self, memories: Iterable[Memory]) -> None:
        """Forgets everything, then adds these."""
        self._clear()
        self.add(memories)

    def search(self, query: str, k: int, *, session: SessionId | None = None) -> list[Found]:
        """The at most ``k`` most relevant memories, best first; none that shares no term.

        Among equals the newest comes first, then the smaller id. ``session``: of this one only.
        """
        asked = self._scoring.asked(query, session)
        scores = self._scoring.scores(asked, k) if k > 0 else {}
        if not scores:
            return []
        best = heapq.nsmallest(
            k,
            (
                (-score, -memory.at_ms, memory.id, number, memory)
                for number, score in self._scoring.best(scores, asked, k).items()
                if (memory := self._memories[number]) is not None
            ),
        )
        full = asked.weight * FULL
        return [
            Found(memory, min(1.0, -score / full), self._best_passage(number, scores))
            for score, _, _, number, memory in best
        ]

    def _best_passage(self, number: int, scores: dict[int, float]) -> int:
        passages = self._passages.of(number)
        return max(passages, key=lambda passage: scores.get(passage, 0.0)) - number


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
