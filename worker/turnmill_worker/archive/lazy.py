"""An archive opened when it is first needed: a database that is down must not stop compaction."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.sealing import Cipher
from turnmill_worker.archive.store import SqlArchive

__all__ = ["LazyArchive"]

if TYPE_CHECKING:
    _Base = SqlArchive
else:
    _Base = object


class LazyArchive(_Base):
    """A ``SqlArchive`` whose first call opens it; a failed opening is tried again by the next.

    Every method raises what ``SqlArchive.open`` and the method itself raise.
    """

    def __init__(self, url: str, cipher: Cipher | None = None) -> None:
        self._url = url
        self._cipher = cipher
        self._opened: SqlArchive | None = None
        self._opening = threading.Lock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._open(), name)

    def _open(self) -> SqlArchive:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = SqlArchive.open(self._url, self._cipher)
                except OSError as error:
                    # The folder of a SQLite file cannot be used now; it may be mounted later.
                    raise ArchiveUnavailable(
                        f"archive: its folder cannot be used ({type(error).__name__})"
                    ) from error
            return self._opened
