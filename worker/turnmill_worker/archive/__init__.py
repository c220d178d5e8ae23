"""The archive in SQL: covered turns, committed contexts, pictures and memories."""

from __future__ import annotations

from turnmill_worker.archive.errors import (
    ArchiveFailed,
    ArchiveTooNew,
    ArchiveUnavailable,
    InvalidArchiveUrl,
)
from turnmill_worker.archive.store import SqlArchive
from turnmill_worker.archive.values import ArchivedSession, ManagedView

__all__ = [
    "ArchiveFailed",
    "ArchiveTooNew",
    "ArchiveUnavailable",
    "ArchivedSession",
    "InvalidArchiveUrl",
    "ManagedView",
    "SqlArchive",
]
