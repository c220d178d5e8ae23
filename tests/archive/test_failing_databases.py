"""A database that fails: a typed error that says whether to retry, and quotes nothing."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.archive.postgres import Postgres, postgres_bin
from tests.archive.records import EPOCH, compaction, image, turn
from turnmill.contract.errors import InvalidInput, Transient, TurnmillError
from turnmill_worker.archive import (
    ArchiveFailed,
    ArchiveUnavailable,
    InvalidArchiveUrl,
    SqlArchive,
    database,
)
from turnmill_worker.ports.values import Batch, Memory, SessionRef

SECRET = "the launch code is 0000"  # noqa: S105 - what must not be quoted
SAID = turn(1, {"role": "user", "content": SECRET}, blobs=(image(b"x").sha256,))
DETAIL = {"template": "t", "input": SECRET, "raw_output": SECRET}
BATCH = Batch(
    turns=(SAID,),
    compactions=(compaction(1, summary=SECRET, detail=DETAIL),),
    blobs=(image(b"x"),),
)
TABLES = ("turns", "compactions", "managed_views", "blobs", "blob_refs", "memories", "sessions")


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A server that these tests may break."""
    binaries = postgres_bin()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="turnmill-postgres-"))
    with Postgres(folder, binaries) as server:
        yield server
    shutil.rmtree(folder)


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for one second."""
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 1)


@pytest.mark.usefixtures("short_wait")
def test_a_lock_that_is_not_released_is_transient(empty_url: str, ref: SessionRef) -> None:
    archive = SqlArchive.open(empty_url)
    archive.store(ref, EPOCH, BATCH)

    with archive._writing.begin() as other:
        if other.dialect.name == "postgresql":
            other.execute(text("LOCK TABLE turns"))
        with pytest.raises(ArchiveUnavailable):
            archive.store(ref, EPOCH, Batch(turns=(turn(2),)))

    archive.store(ref, EPOCH, Batch(turns=(turn(2),)))
    assert len(archive.turns(ref)) == 2
    archive.close()


def test_a_server_that_stops_is_transient_and_comes_back(
    own_postgres: Postgres, ref: SessionRef
) -> None:
    archive = SqlArchive.open(own_postgres.create("own"))
    archive.store(ref, EPOCH, BATCH)
    own_postgres.stop()

    with pytest.raises(ArchiveUnavailable):
        archive.store(ref, EPOCH, BATCH)
    with pytest.raises(ArchiveUnavailable):
        archive.turns(ref)

    own_postgres.start()
    assert archive.turns(ref) == [SAID], "what was stored is durable"
    archive.close()


def test_a_connection_cut_during_a_transaction_is_transient(
    own_postgres: Postgres, ref: SessionRef
) -> None:
    archive = SqlArchive.open(own_postgres.create("cut"))

    def store_and_be_cut() -> None:
        with archive._write() as connection:
            connection.execute(text("SELECT 1"))
            with own_postgres.admin() as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cut'"
                )
            connection.execute(text("SELECT 2"))

    with pytest.raises(ArchiveUnavailable):
        store_and_be_cut()

    archive.store(ref, EPOCH, BATCH)
    archive.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "archive.sqlite3").write_bytes(SECRET.encode() * 500)

    with pytest.raises(ArchiveFailed, match="SQLITE_NOTADB") as caught:
        SqlArchive.open(sqlite_url)

    assert not isinstance(caught.value, Transient)


def test_a_full_disk_is_transient(sqlite_url: str, ref: SessionRef) -> None:
    archive = SqlArchive.open(sqlite_url)
    large = turn(1, {"role": "user", "content": SECRET * 100_000})
    with archive._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 30")

    with pytest.raises(ArchiveUnavailable, match="SQLITE_FULL"):
        archive.store(ref, EPOCH, Batch(turns=(large,)))

    assert archive.turns(ref) == []
    archive.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "archive.sqlite3",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://u:hunter2@h/d",
        "postgresql+psycopg2://u:hunter2@h/d",
        "http://u:hunter2@h",
    ],
)
def test_a_url_of_something_else_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidArchiveUrl, match="sqlite:///") as caught:
        SqlArchive.open(url)

    assert isinstance(caught.value, InvalidInput)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


CALLS: tuple[Callable[[SqlArchive, SessionRef], Any], ...] = (
    lambda archive, ref: archive.store(ref, EPOCH, BATCH),
    lambda archive, ref: archive.mark(ref, EPOCH, after_seq=0, through_seq=9, state="cleared"),
    lambda archive, ref: archive.remember(
        ref.namespace, Memory(id=SECRET, kind="pushed", text=SECRET, speaker=SECRET)
    ),
    lambda archive, ref: archive.turns(ref),
    lambda archive, ref: archive.memories(ref.namespace),
    lambda archive, ref: archive.blobs(ref.namespace, [image(b"x").sha256]),
    lambda archive, ref: archive.forget(ref),
    lambda archive, ref: archive.left(ref),
    lambda archive, _: archive.prune(older_than_ms=10**15),
)


@pytest.mark.parametrize("table", TABLES)
def test_no_error_quotes_what_was_said(archive: SqlArchive, ref: SessionRef, table: str) -> None:
    archive.store(ref, EPOCH, BATCH)
    with archive._writing.begin() as connection:
        connection.execute(text(f"ALTER TABLE {table} RENAME TO elsewhere"))

    for call in CALLS:
        try:
            call(archive, ref)
        except TurnmillError as error:
            assert_quotes_nothing(error)


def assert_quotes_nothing(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error)) + str(error) + repr(error)
    assert SECRET not in shown
    assert SECRET.encode().hex()[:16] not in shown


def test_sqlite_is_durable_at_each_commit(sqlite_url: str) -> None:
    archive = SqlArchive.open(sqlite_url)
    with archive._engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "secure_delete")
        }
    archive.close()

    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert sqlite3.sqlite_version_info >= (3, 35), "INSERT … RETURNING"
