"""Brings a database to the schema this code expects, while others may be doing the same.

Revisions are the files of ``migrations/versions``, named ``v0001_<what>.py`` in their order; they
only ever go forward. Each transaction holds the database's own lock, so that of many workers that
start at once one migrates and the others wait for it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from turnmill_worker.archive.engine import WRITES
from turnmill_worker.archive.error_translation import typed
from turnmill_worker.errors import ArchiveTooNew

__all__ = ["MIGRATIONS", "VERSION_TABLE", "migrate", "revisions"]

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
