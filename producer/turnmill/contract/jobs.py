"""The Celery tasks and queues both sides know by name. A job carries names, never content."""

from __future__ import annotations

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
