"""The Celery tasks and queues both sides know by name. A job carries names, never content."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

ESTIMATE: Final = "turnmill.estimate"
COMPACT: Final = "turnmill.compact"
SUMMARIZE: Final = "turnmill.summarize"
ARCHIVE: Final = "turnmill.archive"
SWEEP: Final = "turnmill.sweep"
FORGET: Final = "turnmill.forget"

FORCE: Final = "turnmill.force"
ROLLBACK: Final = "turnmill.rollback"
EXPORT: Final = "turnmill.export"
GROUND: Final = "turnmill.ground"
REMEMBER: Final = "turnmill.remember"
ERASE: Final = "turnmill.erase"
ASKS: Final = (FORCE, ROLLBACK, EXPORT, GROUND, REMEMBER, ERASE)
"""Jobs an agent waits for: they carry the id of what was asked."""

_NAMES: Final = {"child": "open", "fork": "fork", "rewind": "rewind", "item_of": "take_back"}
"""What a rollback's question is called by what it holds: one job answers several."""


def asked_for(task: str, body: Collection[str]) -> str:
    """What was asked, as an agent calls it: ``turnmill.fork``."""
    names = (name for field, name in _NAMES.items() if task == ROLLBACK and field in body)
    return f"turnmill.{name}" if (name := next(names, "")) else task


QUEUE_OF: Final = {
    ESTIMATE: "estimate",
    COMPACT: "compact",
    SUMMARIZE: "summarize",
    ARCHIVE: "archive",
    SWEEP: "estimate",
    FORGET: "archive",
    FORCE: "summarize",
    ROLLBACK: "compact",
    EXPORT: "archive",
    GROUND: "archive",
    REMEMBER: "archive",
    ERASE: "archive",
}
QUEUES: Final = ("estimate", "compact", "summarize", "archive")
