"""A database's errors as turnmill's, whose types say whether to retry."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from turnmill.contract.errors import ArchiveUnavailable, TurnmillError
from turnmill_worker.errors import ArchiveFailed

__all__ = ["typed"]


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
        passing, code = _sqlite(origin)
    else:
        passing, code = _postgres(error, getattr(origin, "sqlstate", None))
    made = ArchiveUnavailable if passing else ArchiveFailed
    return made(f"archive: {kind} {code}".rstrip())


def _sqlite(origin: sqlite3.Error) -> tuple[bool, str]:
    # The low byte is the primary code; SQLITE_BUSY_SNAPSHOT and the like are kinds of it.
    code = getattr(origin, "sqlite_errorcode", 0)
    return code & 0xFF in _PASSING_SQLITE, getattr(origin, "sqlite_errorname", "")


def _postgres(error: exc.SQLAlchemyError, state: str | None) -> tuple[bool, str]:
    if state is not None:
        return state.startswith(_PASSING_POSTGRES), f"SQLSTATE {state}"
    if isinstance(error, exc.OperationalError):
        return True, "without an answer"  # refused, timed out, or cut off
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated, ""
