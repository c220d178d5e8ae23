"""The Celery tasks and queues both sides know by name. A job carries names, never content."""

from __future__ import annotations

from typing import Final

__all__ = ["ARCHIVE", "COMPACT", "ESTIMATE", "QUEUES", "QUEUE_OF", "SUMMARIZE", "SWEEP"]

ESTIMATE: Final = "turnmill.estimate"
COMPACT: Final = "turnmill.compact"
SUMMARIZE: Final = "turnmill.summarize"
ARCHIVE: Final = "turnmill.archive"
SWEEP: Final = "turnmill.sweep"

QUEUE_OF: Final = {
    ESTIMATE: "estimate",
    COMPACT: "compact",
    SUMMARIZE: "summarize",
    ARCHIVE: "archive",
    SWEEP: "estimate",
}
QUEUES: Final = ("estimate", "compact", "summarize", "archive")
