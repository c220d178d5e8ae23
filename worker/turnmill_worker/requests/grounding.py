"""Memories: keeps what agents push, and finds what suits a query."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import math
import operator
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from turnmill.contract.errors import InvalidInput, Transient
from turnmill.contract.names import Namespace, SessionId, session_id
from turnmill.contract.results import GroundedContext, GroundedMemory
from turnmill_worker.background.quotas import Quotas
from turnmill_worker.ports.protocols import Archive, Sessions
from turnmill_worker.ports.values import Memory, SessionRef
from turnmill_worker.reading.asking import excerpt
from turnmill_worker.reading.remembered import remembered
from turnmill_worker.reading.search import Index, Said
from turnmill_worker.reading.voices import RESULT

if TYPE_CHECKING:
    from turnmill_worker.requests.embeddings import OpenAiEmbedder

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


CANDIDATES: Final = 50
"""How many of the best are embedded: a model alone finds less than words do."""

REST_S: Final = 30.0
"""How long an endpoint that failed is left alone: one that hangs would slow every question."""

_ROUNDING: Final = 1e-12
_MOST_VECTORS: Final = 4_096
"""Vectors remembered: 25 MB of 1,536 dimensions."""

Vector = Sequence[float]


class EmbeddingsUnavailable(Transient):
    """The endpoint cannot be reached, refused, or answered with something other than vectors."""


class HybridSearch:
    """Orders what an index found by the sum of two z-scores: relevance and cosine.

    Vectors of memories are remembered by their text. An endpoint that fails changes the order,
    never the outcome, and is asked again after a rest. Thread-safe, and no thread waits for
    another's request.
    """

    def __init__(
        self, embedder: OpenAiEmbedder, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._embedder = embedder
        self._clock = clock
        self._rests_until = -math.inf
        self._reason = ""
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def order(self, query: str, found: Sequence[Found], k: int) -> tuple[list[Found], str]:
        """The best ``k`` of what an index found, and why embeddings were not used, or ``""``.

        A relevance is the mean of the index's and the cosine.
        """
        if not found:
            return [], ""
        try:
            cosines = self._cosines(query, [each.text for each in found])
        except EmbeddingsUnavailable as error:
            return list(found[:k]), str(error)
        lexical = _standard([each.relevance for each in found])
        semantic = _standard(cosines)
        order = sorted(range(len(found)), key=lambda at: (-lexical[at] - semantic[at], at))
        return [_both(found[at], cosines[at]) for at in order[:k]], ""

    def _cosines(self, query: str, texts: Sequence[str]) -> list[float]:
        with self._lock:
            used = {text: self._known[text] for text in texts if text in self._known}
        new = list(dict.fromkeys(text for text in texts if text not in used))
        asked, *vectors = map(_unit, self._embed([query, *new]))
        used.update(zip(new, vectors, strict=True))
        same = all(len(vector) == len(asked) for vector in used.values())
        with self._lock:
            if not same:
                self._known.clear()
                raise EmbeddingsUnavailable("the endpoint's vectors have changed their length")
            for text, vector in used.items():
                self._known[text] = vector
                self._known.move_to_end(text)
            while len(self._known) > _MOST_VECTORS:
                self._known.popitem(last=False)
        return [sum(map(operator.mul, asked, used[text])) for text in texts]

    def _embed(self, texts: Sequence[str]) -> list[Vector]:
        if self._clock() < self._rests_until:
            raise EmbeddingsUnavailable(self._reason)
        try:
            return self._embedder.embed(texts)
        except EmbeddingsUnavailable as error:
            self._reason, self._rests_until = str(error), self._clock() + REST_S
            raise


def _unit(vector: Vector) -> Vector:
    """The vector at length 1, so that a product of two is their cosine."""
    length = math.hypot(*vector) or 1.0
    return array("f", (value / length for value in vector))


def _standard(values: Sequence[float]) -> list[float]:
    """Values as standard deviations from their mean; zeros when they do not differ."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / deviation if deviation > _ROUNDING else 0.0 for value in values]


def _both(found: Found, cosine: float) -> Found:
    return replace(found, relevance=min(1.0, (found.relevance + max(0.0, cosine)) / 2))


_AT_ONCE: Final = 1_000
_MOST_MEMORIES: Final = 200_000
"""Memories kept of all namespaces together: some 250 MB with their indexes."""


class _Following:
    """One namespace's index, and how far into the archive it has read. Thread-safe."""

    def __init__(self, archive: Archive, namespace: Namespace) -> None:
        self._archive = archive
        self._namespace = namespace
        self._lock = threading.Lock()
        self._generation = 0
        self._cursor = 0
        self._index = MemoryIndex()

    def __len__(self) -> int:
        return len(self._index)

    def search(self, query: str, k: int, session: SessionId | None) -> list[Found]:
        """The best ``k`` of what the archive has by now."""
        with self._lock:
            self._catch_up()
            return self._index.search(query, k, session=session)

    def _catch_up(self) -> None:
        generation = self._archive.memory_generation(self._namespace)
        if generation != self._generation:
            # Deleted memories leave no trace to follow.
            self._index = MemoryIndex()
            self._cursor, self._generation = 0, generation
        while new := self._archive.memories(self._namespace, after=self._cursor, most=_AT_ONCE):
            self._index.add(memory for _, memory in new)
            self._cursor = new[-1][0]


class GroundingService:
    """Searches the index of a namespace, brought up to date first.

    Thread-safe. Questions about one namespace wait for each other while its index is read, never
    for another namespace's, nor for an endpoint.
    """

    def __init__(
        self,
        archive: Archive,
        hybrid: HybridSearch | None = None,
        *,
        most_memories: int = _MOST_MEMORIES,
    ) -> None:
        """A service that follows an archive, and orders the best by embeddings if there are any.

        ``most_memories`` are kept of all namespaces together. Above that, namespaces asked longest
        ago are dropped, and read anew when asked again; the one asked last is always kept.
        """
        self._archive = archive
        self._hybrid = hybrid
        self._most_memories = most_memories
        self._followed: OrderedDict[Namespace, _Following] = OrderedDict()
        self._lock = threading.Lock()

    def search(
        self,
        namespace: Namespace,
        query: str,
        k: int,
        session: SessionId | None = None,
        *,
        beside: Sequence[Memory] = (),
    ) -> GroundedContext:
        """The best ``k`` memories for a query, of all sessions or of one, and of those ``beside``.

        Raises:
            ArchiveUnavailable: the archive cannot be read now.
        """
        following = self._of(namespace)
        most = k if self._hybrid is None else max(k, CANDIDATES)
        found = following.search(query, most, session)
        self._make_room()
        if beside:
            # By themselves: nobody else's question waits for them to be read.
            every = [*MemoryIndex(beside).search(query, most), *found]
            unique = {each.memory.id: each for each in every}
            found = sorted(unique.values(), key=lambda each: -each.relevance)[:most]
        if self._hybrid is None:
            return GroundedContext(memories=tuple(map(_grounded, found)))
        best, degraded = self._hybrid.order(query, found, k)
        return GroundedContext(memories=tuple(map(_grounded, best)), degraded=degraded)

    def _of(self, namespace: Namespace) -> _Following:
        with self._lock:
            following = self._followed.get(namespace)
            if following is None:
                following = self._followed[namespace] = _Following(self._archive, namespace)
            self._followed.move_to_end(namespace)
            return following

    def _make_room(self) -> None:
        with self._lock:
            # One more for each: namespaces without memories take room, too.
            kept = sum(1 + len(following) for following in self._followed.values())
            while kept > self._most_memories and len(self._followed) > 1:
                _, oldest = self._followed.popitem(last=False)
                kept -= 1 + len(oldest)


def _grounded(found: Found) -> GroundedMemory:
    memory = found.memory
    return GroundedMemory(
        id=memory.id,
        text=found.text,
        kind=memory.kind,
        session=memory.session,
        seq=memory.seq,
        speaker=memory.speaker,
        at_ms=memory.at_ms,
        relevance=found.relevance,
    )


NO_ARCHIVE = "the workers have no archive (TURNMILL_ARCHIVE_URL=none): nothing is remembered there"


_MOST_ELIDED: Final = 500_000
"""Characters of elided messages that a question is looked for in: half a second of CPU."""


class Remembering:
    """Memories in an archive, which may be missing, under the namespace's quota.

    And of one session what its context shows only a stub of: no archive has that yet.
    """

    def __init__(
        self,
        archive: Archive | None,
        memories: GroundingService | None,
        quotas: Quotas,
        sessions: Sessions,
    ) -> None:
        self._archive = archive
        self._memories = memories
        self._quotas = quotas
        self._sessions = sessions

    def remember(self, namespace: Namespace, text: str, at_ms: int) -> str:
        """Keep the text; returns its id, which depends on nothing else.

        Raises:
            QuotaExceeded: there are as many memories as the namespace may have.
            InvalidInput: there is no archive.
        """
        if self._archive is None:
            raise InvalidInput(NO_ARCHIVE)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        memory = Memory(id=f"pushed:{digest[:32]}", kind="pushed", text=text, at_ms=at_ms)
        self._quotas.read_again()
        self._archive.remember(namespace, memory, most=self._quotas.of(namespace).memories)
        return memory.id

    def search(self, ref: SessionRef, body: Any) -> Any:
        """What suits the query that the question holds.

        Raises:
            InvalidInput: there is no archive.
        """
        if self._memories is None:
            raise InvalidInput(NO_ARCHIVE)
        # Agents that cannot ask for one session do not name any.
        session = body.get("session")
        beside = self._elided(SessionRef(ref.namespace, session_id(session))) if session else ()
        found = self._memories.search(
            ref.namespace, body["query"], body["k"], session, beside=beside
        )
        return found.model_dump(mode="json")

    def _elided(self, ref: SessionRef) -> list[Memory]:
        """The whole messages that the session's context shows stubs of, the newest ones."""
        snapshot = self._sessions.snapshot(ref)
        if snapshot is None or not snapshot.stored.elisions:
            return []
        calls: dict[str, str] = {}
        made = [
            Memory(
                id=f"{ref.session}:{snapshot.epoch}:turn:{turn.seq}.{index}",
                kind="turn",
                text=text,
                speaker=speaker,
                session=ref.session,
                seq=turn.seq,
            )
            for turn in snapshot.turns
            for index, message in enumerate(turn.original)
            for speaker, text in remembered(message, calls, _MOST_ELIDED)
            if turn.shown[index] is not message
        ]
        sizes = accumulate(len(memory.text) for memory in reversed(made))
        newest = sum(size <= _MOST_ELIDED for size in sizes)
        return made[len(made) - newest :]
