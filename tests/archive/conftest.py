"""Every test of the archive runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archive.postgres import Postgres, postgres_bin
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import SessionRef


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the run."""
    binaries = postgres_bin()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # Not below pytest's own folder: only its owner may enter that, and root cannot run the server.
    folder = Path(tempfile.mkdtemp(prefix="turnmill-postgres-"))
    try:
        with Postgres(folder, binaries) as server:
            yield server
    finally:
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database nobody has opened."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/made on demand/archive.sqlite3"
    server: Postgres = request.getfixturevalue("postgres")
    return server.create(f"t{uuid.uuid4().hex[:12]}")


@pytest.fixture
def archive(empty_url: str) -> Iterator[SqlArchive]:
    """An open archive."""
    opened = SqlArchive.open(empty_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """For what only a file can show."""
    return f"sqlite:///{tmp_path}/archive.sqlite3"


@pytest.fixture
def ref() -> SessionRef:
    """A session."""
    return SessionRef(Namespace("shop"), SessionId("agent-7"))
