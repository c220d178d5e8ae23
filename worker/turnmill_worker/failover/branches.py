"""How far a session has come in one place, and what is kept of a state that Redis lost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """The newest turn and commit of an incarnation in one place; 0 and ``""`` for none."""

    epoch: str
    seq: int
    version: int
    commit_id: str = ""

    def is_ahead_of(self, other: Tip) -> bool:
        """Whether the other is of the same incarnation and lacks turns or commits."""
        behind = other.seq < self.seq or other.version < self.version
        return other.epoch == self.epoch and behind


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBranch:
    """What the archive kept of a state that Redis lost when it returned to an earlier one.

    Attributes:
        branch: its number, from 1 on.
        epoch: under which the archive has it.
        first_seq, last_seq: of its turns; 0 when there are none.
        compactions: how many commits.
    """

    branch: int
    epoch: str
    turns: int
    first_seq: int
    last_seq: int
    compactions: int

    @property
    def numbers(self) -> dict[str, int]:
        """All but the epoch, as fields of a log line."""
        names = ("branch", "turns", "first_seq", "last_seq", "compactions")
        return {name: getattr(self, name) for name in names}
