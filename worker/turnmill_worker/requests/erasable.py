"""What an erasure changes in one incarnation of a session; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from turnmill.contract.context import StoredContext
from turnmill.contract.names import Seq
from turnmill_worker.ports.erasure import Emptied
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn
from turnmill_worker.requests.lives import Life
from turnmill_worker.requests.sought import Sought, runs, said
from turnmill_worker.requests.tombstone import tombstone

__all__ = ["Erasable", "erasable"]

NEVER = 2**62
"""After every turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasable:
    """What is to be erased of one incarnation of a session, or of what Redis lost of it.

    Attributes:
        tombs: by seq, what will stand in the turns' places.
        words: theirs, in a row.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        memories: ids of pushed ones that go.
        base: the newest context made without the turns.
    """

    life: Life
    tombs: Mapping[int, ArchivedTurn]
    repeated_in: tuple[Seq, ...]
    words: AbstractSet[tuple[str, ...]]
    contexts: tuple[ArchivedCompaction, ...]
    checkpoints: tuple[str, ...]
    memories: tuple[str, ...]
    base: StoredContext
    in_system_prompt: bool

    @property
    def emptied(self) -> Emptied:
        """What the archive is told; of turns still in the log it will hear when they leave it."""
        left = self.life.left
        return Emptied(
            turns=tuple(tomb for seq, tomb in self.tombs.items() if seq in left),
            all_turns=tuple(self.tombs),
            contexts=self.contexts,
            memories=self.memories,
        )

    @property
    def bodies(self) -> set[bytes]:
        """The messages of the turns, as they were said."""
        copies = (turn for turn in self.life.copies if turn.seq in self.tombs)
        return {turn.messages for turn in copies if turn.erased_at_ms is None}

    @property
    def is_any(self) -> bool:
        """Whether there is anything to erase."""
        return bool(self.tombs or self.contexts or self.checkpoints or self.memories)

    @property
    def is_remade(self) -> bool:
        """Whether the context was made of the turns, so that an earlier one takes its place."""
        past = self.life.past
        return past is not None and self.base.version != past.version


def erasable(
    life: Life,
    sought: Sought,
    pushed: Iterable[tuple[str, str]],
    *,
    at_ms: int,
    renamed: Callable[[str], str],
    kept: Erasable | None = None,
) -> Erasable:
    """What is sought, and what has its words; ``pushed`` are memories by id.

    ``kept`` is of the incarnation that this life was lost from: contexts lost may be made of its
    turns, and turns lost may be its own, which were pushed again.
    """
    seqs, words, repeated = _turns(life, sought, kept)

    def touches(text: str) -> bool:
        return sought.names(text) or not words.isdisjoint(runs(text))

    first = min((*seqs, *(kept.tombs if kept else ())), default=NEVER)
    past = life.past
    checkpoints = past.checkpoints if past else ()
    return Erasable(
        life=life,
        tombs={
            seq: tombstone(life.newest_copy(seq), at_ms=at_ms, renamed=renamed)
            for seq in sorted(seqs)
        },
        repeated_in=tuple(sorted(repeated)),
        words=words,
        contexts=life.contexts_after(first),
        checkpoints=tuple(
            state.entry
            for state in checkpoints
            if state.seq >= first or touches(f"{state.id} {state.message}")
        ),
        memories=tuple(name for name, text in pushed if touches(text)),
        base=life.newest_before(first),
        in_system_prompt=past is not None and touches(f"{past.system} {past.tools.decode()}"),
    )


def _turns(
    life: Life, sought: Sought, kept: Erasable | None
) -> tuple[set[Seq], AbstractSet[tuple[str, ...]], set[Seq]]:
    """The turns to erase, their words, and those that repeat some of them and are left."""
    again = kept.bodies if kept else set()
    seqs = {turn.seq for turn in life.copies if sought.finds(turn) or turn.messages in again}
    seqs |= life.half_erased
    words = life.runs_of(seqs) | (kept.words if kept else set())
    others = [turn for turn in life.copies if turn.seq not in seqs] if words else []
    repeated = {turn.seq for turn in others if not words.isdisjoint(runs(said(turn)))}
    if not sought.repeats:
        return seqs, words, repeated
    seqs |= repeated
    return seqs, words | life.runs_of(repeated), set()
