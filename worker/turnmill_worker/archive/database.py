"""The archive's database: opened, read and written in transactions, and its log emptied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Self

from sqlalchemy import Connection, Engine

from turnmill.contract.sealing import Cipher
from turnmill_worker.archive import scrub
from turnmill_worker.archive.engine import WRITES, check_file, make_engine
from turnmill_worker.archive.error_translation import typed
from turnmill_worker.archive.migrate import migrate

__all__ = ["Database"]


class Database:
    """One database, whose transactions raise the archive's own errors."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = engine.execution_options(**WRITES)

    @classmethod
    def open(cls, url: str, cipher: Cipher | None = None) -> Self:
        """The archive at the URL, made or migrated when needed.

        Raises:
            InvalidArchiveUrl: neither ``sqlite:///<file>`` nor ``postgresql://…``.
            ArchiveTooNew: a newer turnmill has written it.
        """
        engine = make_engine(url, cipher)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _read(self) -> Iterator[Connection]:
        with typed(), self._engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def _write(self) -> Iterator[Connection]:
        with typed(), self._writing.connect() as connection:
            with connection.begin():
                yield connection
            check_file(connection)

    def _scrub(self) -> None:
        """Empty SQLite's write-ahead log; a reader may keep it, and a later write reuses it."""
        if self._engine.dialect.name == "sqlite":
            scrub.empty_log(self._engine)
