"""From a URL to an engine whose transactions are durable and wait for one another."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.sealing import Cipher
from turnmill_worker.archive.sealed_rows import with_cipher
from turnmill_worker.errors import InvalidArchiveUrl

__all__ = ["WRITES", "check_file", "make_engine"]

WRITES = {"turnmill_writes": True}
"""Execution option of transactions that write: on SQLite they take the lock when they begin."""

_LOCK_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 10
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")


def make_engine(url: str, cipher: Cipher | None = None) -> Engine:
    """An engine for the URL, whose rows are sealed; the folder of a SQLite file is made.

    Raises:
        InvalidArchiveUrl: neither a SQLite file nor PostgreSQL, or its driver is missing.
    """
    try:
        parsed = make_url(url)
    except exc.ArgumentError:
        # Not chained, not quoted: URLs hold passwords.
        raise InvalidArchiveUrl("archive URL: not a URL; " + _ALLOWED) from None
    if parsed.drivername in _POSTGRES:
        made = _postgres(parsed.set(drivername="postgresql+psycopg"))
        return made.execution_options(**with_cipher(cipher))
    if parsed.drivername == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return _sqlite(parsed).execution_options(**with_cipher(cipher))
    raise InvalidArchiveUrl(f"archive URL: {parsed.drivername}: cannot be used; " + _ALLOWED)


_ALLOWED = "allowed are sqlite:///<file> and postgresql://<user>@<host>/<database>"


def _postgres(url: URL) -> Engine:
    try:
        engine = create_engine(
            url,
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args={"connect_timeout": _CONNECT_TIMEOUT_S},
        )
    except ModuleNotFoundError as error:
        raise InvalidArchiveUrl(
            "archive URL: PostgreSQL needs psycopg: install turnmill's extra `postgres`"
        ) from error
    event.listen(engine, "begin", _limit_waiting)
    return engine


def _limit_waiting(connection: Connection) -> None:
    # Not a connection option: poolers between us and the server refuse those.
    if connection.get_execution_options().get("turnmill_writes"):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT_S}s'")


def _sqlite(url: URL) -> Engine:
    if url.database is not None:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": _LOCK_TIMEOUT_S})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "connect", lambda _, entry: _note_file(entry, Path(url.database or "")))
    event.listen(engine, "checkout", lambda _, entry, __: _leave_old_file(entry))
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    # The driver must not begin transactions by itself: it would begin them without the lock.
    connection.isolation_level = None
    # Redis is trimmed as soon as a commit returns; in WAL mode only FULL survives a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    # What is forgotten is overwritten, not only unlinked.
    connection.execute("PRAGMA secure_delete = ON")
    _use_wal(connection)


def _note_file(entry: ConnectionPoolEntry, file: Path) -> None:
    entry.info["file"] = file.absolute(), _identity(file)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _leave_old_file(entry: ConnectionPoolEntry) -> None:
    file, opened = entry.info["file"]
    now = _identity(file)
    if opened is None or now == opened:
        return
    if now is None:
        # Opening it again would make an empty one, in the place of what is being put back.
        raise ArchiveUnavailable("archive: its file is gone")
    raise exc.DisconnectionError


def check_file(connection: Connection) -> None:
    """See that what this connection has committed is in the archive, and in no file that was.

    Somebody may put a backup in the place of a SQLite file that is in use; what is written into
    the old one then is lost as soon as nobody has it open.

    Raises:
        ArchiveUnavailable: another file is there by now.
    """
    file, opened = connection.info.get("file", (None, None))
    if opened is not None and _identity(file) != opened:
        raise ArchiveUnavailable("archive: its file was replaced meanwhile")


def _use_wal(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # Switching is the one statement that does not wait for a lock by itself.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin(connection: Connection) -> None:
    writes: Any = connection.get_execution_options().get("turnmill_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
