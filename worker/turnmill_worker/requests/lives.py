"""All there is of a session, in each of its incarnations: every copy of a turn, every context."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import EMPTY, StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Seq, Version
from turnmill_worker.pipeline.agreement import past_agreed
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.past import Past
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.sought import runs, said

__all__ = ["ERASED", "Life", "Lives"]

ERASED = "erased"
"""The strategy that a context names which was made of erased turns, and is empty now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One incarnation of a session, or what Redis lost of one when it went back.

    Attributes:
        origin: the incarnation's epoch; ``epoch`` is another for what was lost.
        past: what Redis has of it, or None.
        archived: turns in the archive.
        commits: contexts by version, from both.
    """

    epoch: str
    origin: str
    past: Past | None
    archived: Sequence[ArchivedTurn]
    commits: Sequence[ArchivedCompaction]

    @property
    def copies(self) -> list[ArchivedTurn]:
        """Every copy of every turn: one may have been erased, and another not."""
        return [*self.archived, *self._leaving, *(self.past.log if self.past else ())]

    @property
    def left(self) -> set[int]:
        """Turns that left the log, by seq."""
        return {turn.seq for turn in (*self.archived, *self._leaving)}

    @property
    def _leaving(self) -> list[ArchivedTurn]:
        left = self.past.left if self.past else ()
        return [each for each in left if isinstance(each, ArchivedTurn)]

    def newest_copy(self, seq: int) -> ArchivedTurn:
        """The turn as it is now."""
        return [turn for turn in self.copies if turn.seq == seq][-1]

    def runs_of(self, seqs: Collection[int]) -> set[tuple[str, ...]]:
        """The words in a row of these turns; of those erased before nothing is known."""
        known = (turn for turn in self.copies if turn.seq in seqs and turn.erased_at_ms is None)
        return {run for turn in known for run in runs(said(turn))}

    @property
    def half_erased(self) -> set[Seq]:
        """Turns erased in the archive by a worker that died before it came to Redis."""
        if self.past is None:
            return set()
        records = ((each.at_ms, Compaction.parse(each.record)) for each in self.commits)
        done_ms = max((at for at, each in records if each.strategy == "erase"), default=0)
        return {turn.seq for turn in self.copies if (turn.erased_at_ms or 0) > done_ms}

    def contexts_after(self, seq: int) -> tuple[ArchivedCompaction, ...]:
        """Commits made when this turn was known, each with an empty context."""
        found = []
        for commit in self.commits:
            record = Compaction.parse(commit.record)
            stored = StoredContext.parse(commit.context)
            if _end(record, stored) >= seq:
                empty = StoredContext(
                    version=commit.version, watermark=record.watermark, strategy=ERASED
                )
                found.append(replace(commit, context=empty.encode(), detail=b""))
        return tuple(found)

    def newest_before(self, seq: int) -> StoredContext:
        """The newest context of the conversation made before this turn was known; or none."""
        left_from = float("inf")
        for commit in sorted(self.commits, key=lambda each: -each.version):
            record = Compaction.parse(commit.record)
            stored = StoredContext.parse(commit.context)
            if stored.strategy == ERASED:
                continue
            if _end(record, stored) < min(seq, left_from):
                return stored
            if record.strategy == "clear":
                break  # all contexts before stand for turns that were set aside
            if record.strategy == "rollback":
                left_from = min(left_from, record.last_seq + 1)
        return StoredContext()

    def missing(self, *, after: int, through: int) -> list[int]:
        """Turns of which there is no copy: they were pruned, or there is no archive."""
        there = {turn.seq for turn in self.copies}
        return [seq for seq in range(after + 1, through + 1) if seq not in there]


class Lives:
    """Finds all there is of sessions."""

    def __init__(self, states: States, archive: Archive | None) -> None:
        self._states = states
        self._archive = archive

    def of(self, ref: SessionRef, *, newest_only: bool) -> list[Life]:
        """The session's incarnations, the newest last, each after what Redis lost of it.

        None for an unknown session.
        """
        past = past_agreed(self._states, self._archive, ref, thoroughly=True)
        epochs = dict(self._archive.epochs(ref)) if self._archive else {}
        if past is not None:
            epochs.pop(past.epoch, None)
            epochs[past.epoch] = past.epoch
        newest = list(epochs.values())[-1:]
        return [
            self._life(ref, epoch, origin, past if past and epoch == past.epoch else None)
            for epoch, origin in epochs.items()
            if origin in newest or not newest_only
        ]

    def _life(self, ref: SessionRef, epoch: str, origin: str, past: Past | None) -> Life:
        archived: Sequence[ArchivedTurn] = ()
        commits: dict[Version, ArchivedCompaction] = {}
        if self._archive is not None:
            archived = self._archive.turns(ref, epoch=epoch)
            commits = {each.version: each for each in self._archive.compactions(ref, epoch=epoch)}
        # The archive is erased first: what Redis has may be whole still.
        commits |= {each.version: each for each in (past.commits if past else ())}
        return Life(
            epoch=epoch,
            origin=origin,
            past=past,
            archived=archived,
            commits=[commits[version] for version in sorted(commits)],
        )


def _end(record: Compaction, stored: StoredContext) -> int:
    """The newest turn that was known when the context was made; 0 if there is nothing in it."""
    beside = {"version": 0, "watermark": 0, "strategy": "", "tokens": 0, "recall": False}
    if stored.model_copy(update=beside) == EMPTY:
        return 0
    return max(record.last_seq, record.watermark)
