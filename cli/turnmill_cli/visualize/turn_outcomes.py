"""What became of each turn: covered by which compaction, shortened, or still word for word."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from turnmill.contract.context import EMPTY, StoredContext
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill_cli.visualize.token_curve import TokenCurve

__all__ = ["TurnOutcomes", "turn_outcomes"]


@dataclass(frozen=True, slots=True)
class TurnOutcomes:
    """What became of a session's turns.

    Attributes:
        stored: what stands for older turns now; version 0 when nothing does.
        watermark: turns up to it are not read word for word any more, but for pinned ones.
        first: the first turn of the conversation: after the newest ``clear``.
        covered: the version that covered a turn, by seq; without what a rollback brought back.
        shortened: turns some messages of which are read shortened now.
    """

    stored: StoredContext
    watermark: int
    first: int = 1
    covered: dict[int, int] = field(default_factory=dict)
    shortened: frozenset[int] = frozenset()

    def is_read_now(self, turn: TrajectoryTurn) -> bool:
        """Whether the turn itself is part of the context now, shortened or not."""
        return turn.state == "kept" and (turn.seq > self.watermark or turn.pinned)


def turn_outcomes(trajectory: Trajectory, curve: TokenCurve) -> TurnOutcomes:
    """What became of the session's turns, by its compactions, rollbacks and clears in order."""
    seqs = [turn.seq for turn in trajectory.turns]
    commits = {commit.record.version: commit for commit in trajectory.compactions}
    covered: dict[int, int] = {}
    stored, watermark, beginning = EMPTY, 0, 1
    for change in curve.changes:
        commit = commits.get(change.version)  # type: ignore[call-overload]
        if commit is None:
            stored, watermark, beginning = EMPTY, change.seq, change.seq + 1
            continue
        stored, watermark = commit.context, commit.context.watermark
        if change.kind == "rollback":
            covered = {seq: version for seq, version in covered.items() if seq <= watermark}
            continue
        first = bisect_left(seqs, commit.record.from_watermark + 1)
        through = bisect_right(seqs, commit.record.watermark)
        covered |= dict.fromkeys(seqs[first:through], change.version)
    shortened = frozenset(elision.seq for elision in stored.elisions)
    return TurnOutcomes(stored, watermark, beginning, covered, shortened)
