"""Earlier states of a session, and what a rollback makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Seq, Version
from turnmill.contract.policy import Policy
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn, Batch, Tip
from turnmill_worker.ports.values import CountedTurn, Mark

__all__ = ["Past", "PastState", "Restored", "after_drain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """A state a rollback can restore.

    Attributes:
        id, message: the checkpoint's, or ``version <n>`` and ``""``.
        entry: of its stream in Redis, or ``""``.
        seq, stored: its newest turn, and its context.
    """

    id: str
    entry: str
    seq: Seq
    stored: StoredContext
    at_ms: int = 0
    message: str = ""


def after_drain(
    archived: Iterable[ArchivedTurn], left: Iterable[ArchivedTurn | Mark]
) -> dict[int, ArchivedTurn]:
    """Turns by seq as the archive will have them when this is drained."""
    found: dict[int, ArchivedTurn] = {turn.seq: turn for turn in archived}
    for step in left:
        if isinstance(step, ArchivedTurn):
            # What is archived already may be marked by now; or Redis went back, and it is another.
            if step.seq not in found or not found[step.seq].is_same(step):
                found[step.seq] = step
            continue
        for seq, turn in found.items():
            if step.after_seq < seq <= step.through_seq and turn.state == "kept":
                found[seq] = replace(turn, state=step.state)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """All of a session that is in Redis, at one moment.

    Attributes:
        commit_id: of the last commit; ``""`` when there is none, or it had no id.
        tokens: of the context, without turns nobody has counted.
        left: turns that left the log and are not archived yet, and marks, in that order.
        log: turns after the watermark.
        checkpoints: oldest first.
        commits: contexts committed and not archived yet.
    """

    epoch: str
    revision: str
    policy: Policy
    version: Version
    watermark: Seq
    last_seq: Seq
    system: str
    system_tokens: int
    basis: str
    tokens: int
    left: tuple[ArchivedTurn | Mark, ...]
    log: tuple[ArchivedTurn, ...]
    checkpoints: tuple[PastState, ...]
    commits: tuple[ArchivedCompaction, ...]
    commit_id: str = ""

    @property
    def tip(self) -> Tip:
        """Its newest turn and commit."""
        return Tip(
            epoch=self.epoch, seq=self.last_seq, version=self.version, commit_id=self.commit_id
        )

    @property
    def seen(self) -> Batch:
        """All turns and commits, as the archive would have them."""
        left = (each for each in self.left if isinstance(each, ArchivedTurn))
        return Batch(turns=(*left, *self.log), compactions=self.commits)

    def with_archived(self, archived: Sequence[ArchivedTurn]) -> list[ArchivedTurn]:
        """These turns and those in Redis together, once each, by seq, as they are by now."""
        found = after_drain(archived, self.left) | {turn.seq: turn for turn in self.log}
        return [found[seq] for seq in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A state as it is written back, counted.

    Attributes:
        stored: its context, with the version it will have.
        turns: its turns after the watermark, with their exact tokens.
        used: entry of the checkpoint that the rollback uses up, or ``""``.
        due: its context is over the soft limit.
    """

    seq: Seq
    stored: StoredContext
    turns: tuple[tuple[ArchivedTurn, CountedTurn], ...]
    open_calls: tuple[str, ...]
    basis: str
    images_before: int
    quality: float | None
    record: Compaction
    used: str
    due: bool
