"""The archive in SQL: covered turns, committed contexts, images and memories."""

from __future__ import annotations

from turnmill.contract.errors import ArchiveUnavailable
from turnmill_worker.archive.rows import ArchivedSession, ManagedView
from turnmill_worker.archive.store import SqlArchive
from turnmill_worker.errors import ArchiveFailed, ArchiveTooNew, InvalidArchiveUrl

__all__ = [
    "ArchiveFailed",
    "ArchiveTooNew",
    "ArchiveUnavailable",
    "ArchivedSession",
    "InvalidArchiveUrl",
    "ManagedView",
    "SqlArchive",
]
