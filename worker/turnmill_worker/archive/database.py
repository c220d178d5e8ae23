"""The archive's database: opened, migrated, used in transactions, and rid of old bytes."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, inspect, make_url, text
from sqlalchemy.pool import ConnectionPoolEntry

from turnmill.contract.errors import ArchiveUnavailable, TurnmillError
from turnmill.contract.sealing import Cipher
from turnmill_worker.archive.schema import METADATA, with_cipher
from turnmill_worker.errors import ArchiveFailed, ArchiveTooNew, InvalidArchiveUrl

_PASSING_SQLITE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)
_PASSING_POSTGRES = (
    "08",  # connection exceptions
    "40",  # serialization failure, deadlock
    "53",  # disk full, out of memory, too many connections
    "55P03",  # waited too long for a lock
    "57",  # cancelled, shut down, still starting
)


@contextmanager
def typed() -> Iterator[None]:
    """Turns a database's error into one that says whether to retry, and quotes nothing.

    Raises:
        ArchiveUnavailable: the same call may succeed later.
        ArchiveFailed: it will not.
    """
    try:
        yield
    except exc.TimeoutError:
        raise ArchiveUnavailable("archive: no connection of the pool became free") from None
    except OverflowError as error:
        raise ArchiveFailed("archive: a number does not fit into 64 bits") from error
    except exc.SQLAlchemyError as error:
        # Not chained: PostgreSQL's messages quote values, and values are conversations.
        raise _translate(error) from None


def _translate(error: exc.SQLAlchemyError) -> TurnmillError:
    origin = error.orig if isinstance(error, exc.StatementError) else None
    kind = type(origin or error).__name__
    if isinstance(origin, sqlite3.Error):
        passing, code = _sqlite_error(origin)
    else:
        passing, code = _postgres_error(error, getattr(origin, "sqlstate", None))
    made = ArchiveUnavailable if passing else ArchiveFailed
    return made(f"archive: {kind} {code}".rstrip())


def _sqlite_error(origin: sqlite3.Error) -> tuple[bool, str]:
    # The low byte is the primary code; SQLITE_BUSY_SNAPSHOT and the like are kinds of it.
    code = getattr(origin, "sqlite_errorcode", 0)
    return code & 0xFF in _PASSING_SQLITE, getattr(origin, "sqlite_errorname", "")


def _postgres_error(error: exc.SQLAlchemyError, state: str | None) -> tuple[bool, str]:
    if state is not None:
        return state.startswith(_PASSING_POSTGRES), f"SQLSTATE {state}"
    if isinstance(error, exc.OperationalError):
        return True, "without an answer"  # refused, timed out, or cut off
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated, ""


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


MIGRATIONS = Path(__file__).with_name("migrations")
VERSION_TABLE = "turnmill_archive_version"

_POSTGRES_LOCK = 0x7475726E6D696C6C  # "turnmill": taken by nothing else
_ALEMBIC_HAS_GLOBALS = threading.Lock()


def revisions(migrations: Path = MIGRATIONS) -> list[str]:
    """Every revision, oldest first."""
    files = sorted((migrations / "versions").glob("v[0-9]*.py"))
    return [file.stem.split("_")[0] for file in files]


def migrate(engine: Engine, *, migrations: Path = MIGRATIONS, to: str | None = None) -> None:
    """Upgrade the database to a revision, the newest by default; all of it or nothing.

    Raises:
        ArchiveTooNew: it has a revision this code does not know.
        ArchiveUnavailable: another process migrated for longer than the lock timeout.
    """
    known = revisions(migrations)
    wanted = to or known[-1]
    with typed():
        with engine.connect() as connection:
            if _revision(connection) == wanted:
                return
        with engine.execution_options(**WRITES).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
            found = _revision(connection)
            if found is not None and found not in known:
                raise ArchiveTooNew(
                    f"archive: its schema is {found}, and this turnmill knows up to {known[-1]}; "
                    "upgrade turnmill, or use another archive"
                )
            if found is None or found < wanted:
                _upgrade(connection, migrations, wanted)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return None if found is None else str(found)


def _upgrade(connection: Connection, migrations: Path, to: str) -> None:
    # Imported only when there is something to do: it is slow, and workers keep what they import.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # A percent sign in the path would be interpolated.
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    with _ALEMBIC_HAS_GLOBALS:
        command.upgrade(config, to)


WAIT_S = 30.0
"""How long others may keep the database from being written anew."""


CHECKPOINT_S = 5.0
"""How long another's checkpoint is waited for: beside one, SQLite refuses at once."""


def empty_log(engine: Engine) -> bool:
    """Empty SQLite's write-ahead log, which holds the old pages; False if a reader keeps it."""
    deadline = time.monotonic() + CHECKPOINT_S
    while not (is_empty := _checkpoint(engine)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_empty


def _checkpoint(engine: Engine) -> bool:
    raw = engine.raw_connection()
    with contextlib.suppress(sqlite3.Error), contextlib.closing(raw):
        [(busy, _, _)] = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy
    return False


def rewrite(engine: Engine) -> bool:
    """Write the files anew, from what rows there are; False if it could not be done.

    Overwriting what is deleted is not enough: a page that was split keeps copies of what moved.
    """
    try:
        return (
            _rewrite_sqlite(engine)
            if engine.dialect.name == "sqlite"
            else _rewrite_postgres(engine)
        )
    except exc.SQLAlchemyError:
        return False


def _rewrite_sqlite(engine: Engine) -> bool:
    with engine.connect() as connection:
        # SQLAlchemy's own BEGIN must end first: VACUUM takes no transaction.
        raw = connection.connection
        connection.rollback()
        try:
            raw.cursor().execute("VACUUM")
        except sqlite3.Error:
            return False
    deadline = time.monotonic() + WAIT_S
    while not _checkpoint(engine):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _rewrite_postgres(engine: Engine) -> bool:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"SET lock_timeout = '{WAIT_S:.0f}s'"))
        try:
            for table in METADATA.sorted_tables:
                connection.execute(text(f"VACUUM (FULL) {table.name}"))
            # Only then are the old files removed; it may not be allowed, and comes by itself later.
            with contextlib.suppress(exc.SQLAlchemyError):
                connection.execute(text("CHECKPOINT"))
        finally:
            connection.execute(text("RESET lock_timeout"))
    return True


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
            empty_log(self._engine)
