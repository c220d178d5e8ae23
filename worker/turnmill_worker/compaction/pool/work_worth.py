"""What a unit about an agent's work is worth against what is said."""

from __future__ import annotations

from typing import Final

from turnmill_worker.old_reading.actions import Role

__all__ = ["DONE", "ENDED", "WORK"]

DONE: Final = "done"
"""An action with its outcome, whatever words tell it."""

ENDED: Final = frozenset({Role.CHANGE, Role.RUN})

WORK: Final = {
    Role.SAID: 1.0, Role.CHANGE: 3.0, Role.RUN: 1.5, Role.WRITTEN: 1.0, Role.LOOK: 0.4,
    Role.QUOTATION: 0.04,
}  # fmt: skip
"""What was changed and what came of it is what an agent goes on from; what it only looked at can be
looked at again."""
