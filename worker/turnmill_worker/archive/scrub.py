"""Ridding the database's files of bytes that no row has any more."""

from __future__ import annotations

import contextlib
import sqlite3
import time

from sqlalchemy import Engine, exc, text

from turnmill_worker.archive.schema import METADATA

__all__ = ["empty_log", "rewrite"]

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
