"""What an erasure changes in one incarnation of a session; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from turnmill.contract.context import StoredContext
from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import Seq
from turnmill_worker.ports.erasure import Emptied
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.requests.lives import Life
from turnmill_worker.requests.sought import Sought, runs, said
from turnmill_worker.requests.tombstone import tombstone

__all__ = ["Erasable", "erasable"]

NEVER = 2**62
"""After every turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasable:
    """What is to be erased of one incarnation of a session.

    Attributes:
        tombs: by seq, what will stand in the turns' places.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        memories: ids of pushed ones that go.
        base: the newest context made without the turns.
    """

    life: Life
    tombs: Mapping[int, ArchivedTurn]
    repeated_in: tuple[Seq, ...]
    contexts: Mapping[int, tuple[bytes, int, bytes]]
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
    def is_any(self) -> bool:
        """Whether there is anything to erase."""
        return bool(self.tombs or self.checkpoints or self.memories)

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
) -> Erasable:
    """What is sought, and what has its words; ``pushed`` are memories by id.

    Raises:
        InvalidInput: a turn that was named is not there.
    """
    seqs, repeated = _turns(life, sought)
    words = life.runs_of(seqs)

    def touches(text: str) -> bool:
        return sought.names(text) or not words.isdisjoint(runs(text))

    first = min(seqs, default=NEVER)
    past = life.past
    checkpoints = past.checkpoints if past else ()
    return Erasable(
        life=life,
        tombs={
            seq: tombstone(life.newest_copy(seq), at_ms=at_ms, renamed=renamed)
            for seq in sorted(seqs)
        },
        repeated_in=tuple(sorted(repeated)),
        contexts=life.contexts_after(first),
        checkpoints=tuple(
            state.entry
            for state in checkpoints
            if state.seq >= first or touches(f"{state.id} {state.message}")
        ),
        memories=tuple(name for name, text in pushed if touches(text)),
        base=life.newest_before(first),
        in_system_prompt=past is not None and touches(past.system),
    )


def _turns(life: Life, sought: Sought) -> tuple[set[Seq], set[Seq]]:
    """The turns to erase, and those that repeat some of them and are left."""
    seqs = {turn.seq for turn in life.copies if sought.finds(turn)} | life.half_erased
    if missing := sorted(sought.turns - seqs):
        raise InvalidInput(f"turns: the session has no turn {missing[0]}")
    words = life.runs_of(seqs)
    others = [turn for turn in life.copies if turn.seq not in seqs] if words else []
    repeated = {turn.seq for turn in others if not words.isdisjoint(runs(said(turn)))}
    return (seqs | repeated, set()) if sought.repeats else (seqs, repeated)
