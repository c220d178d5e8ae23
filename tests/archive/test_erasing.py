"""What is erased or forgotten is in no file of the archive, and nothing brings it back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary, select

from tests.archive.postgres import Postgres
from tests.archive.records import EPOCH, LATER, compaction, image, session, turn
from turnmill.contract.names import Namespace, Seq
from turnmill_worker.archive import SqlArchive, database
from turnmill_worker.archive.schema import METADATA, Said
from turnmill_worker.ports.values import (
    ArchivedTurn,
    Batch,
    Emptied,
    Gone,
    Memory,
    Removed,
    SessionRef,
)
from turnmill_worker.requests.erasure import tombstone

# --- What is erased from the archive is in none of its files, and nothing brings it back.


SHOP = Namespace("shop")
MINE, SHARED = image(b"mine" * 300), image(b"shared" * 300)
SAID = "ember falcon seven nine opens the door behind the brewery"
DETAIL = {"template": "default", "raw_output": SAID, "input": SAID}


def secret(seq: int, *, times: int = 1) -> ArchivedTurn:
    said = {"role": "user", "content": f"{SAID} " * times}
    return turn(seq, said, blobs=(MINE.sha256, SHARED.sha256))


def batch() -> Batch:
    others = tuple(turn(seq, {"role": "user", "content": "x" * 900}) for seq in range(3, 60))
    return Batch(
        turns=(turn(1, blobs=(SHARED.sha256,)), secret(2, times=40), *others),
        compactions=(
            compaction(1, summary="what came first"),
            compaction(2, summary=SAID, events=[{"first_seq": 2, "text": SAID}], detail=DETAIL),
        ),
        blobs=(MINE, SHARED),
    )


def emptied(seq: int = 2) -> Emptied:
    tomb = tombstone(secret(seq), at_ms=10**12, renamed=lambda name: name)
    made = compaction(2)
    return Emptied(
        turns=(tomb,),
        all_turns=(seq,),
        contexts=(made,),
        memories=("pushed:1",),
    )


@pytest.fixture
def files(request: pytest.FixtureRequest, empty_url: str) -> Iterator[Path]:
    """The folder of the database's files."""
    if empty_url.startswith("sqlite"):
        yield Path(empty_url.removeprefix("sqlite:///")).parent
    else:
        server: Postgres = request.getfixturevalue("postgres")
        name = empty_url.rpartition("/")[2]
        with server.admin() as admin:
            [(own,)] = admin.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,))
        yield server.data / "base" / str(own)


def places(folder: Path, words: str = SAID) -> list[str]:
    """Which files have five of the words in a row."""
    parts = words.split()
    runs = [" ".join(parts[at : at + 5]).encode() for at in range(len(parts) - 4)]
    bodies = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return [file.name for file, body in bodies.items() if any(run in body for run in runs)]


def test_no_file_of_the_database_has_what_was_erased(
    archive: SqlArchive, ref: SessionRef, files: Path
) -> None:
    archive.store(ref, EPOCH, batch())
    archive.remember(SHOP, Memory(id="pushed:1", kind="pushed", text=SAID))
    # Pages that are split keep copies of what moved.
    for at in range(200):
        archive.store(session(f"other-{at}"), EPOCH, Batch(turns=(turn(1), turn(2))))

    assert archive.rewrite()
    assert places(files) != []

    gone = archive.erase(ref, EPOCH, emptied())

    assert gone == Gone(memories=4, images=1)
    assert archive.rewrite()
    assert places(files) == []


def test_postgresql_takes_no_samples_of_what_is_said(postgres: Postgres, ref: SessionRef) -> None:
    archive = SqlArchive.open(postgres.create("sampled"))
    archive.store(ref, EPOCH, batch())
    archive.remember(SHOP, Memory(id="pushed:1", kind="pushed", text=SAID))
    archive.close()
    bodies = {
        (table.name, column.name)
        for table in METADATA.sorted_tables
        for column in table.columns
        if isinstance(column.type, LargeBinary | Said)
    }

    with postgres.admin("sampled") as admin:
        admin.execute("ANALYZE")
        sampled = {*admin.execute("SELECT tablename, attname FROM pg_stats").fetchall()}

    assert ("turns", "seq") in sampled
    assert not sampled & bodies


def test_what_a_drain_has_read_before_stays_erased(archive: SqlArchive, ref: SessionRef) -> None:
    late = batch()
    archive.erase(ref, EPOCH, emptied())

    archive.store(ref, EPOCH, late)

    found = {turn.seq: turn for turn in archive.turns(ref)}
    assert len(found) == 59
    assert found[Seq(2)].erased_at_ms == 10**12
    assert found[Seq(2)].blobs == ()
    assert set(archive.blobs(SHOP, [MINE.sha256, SHARED.sha256])) == {SHARED.sha256}
    assert [SAID.encode() in each.context for each in archive.compactions(ref)] == [False, False]
    assert archive.views(ref) == []
    assert not [memory for _, memory in archive.memories(SHOP) if SAID in memory.text]
    [listed] = archive.sessions(SHOP)
    assert listed.turns == 59
    assert archive.branches(ref) == []


def test_only_the_erased_turn_loses_its_words(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, batch())
    archive.store(ref, LATER, batch())
    others = archive.turns(ref, epoch=LATER)
    before = [turn for turn in archive.turns(ref, epoch=EPOCH) if turn.seq != 2]

    archive.erase(ref, EPOCH, emptied())

    assert [turn for turn in archive.turns(ref, epoch=EPOCH) if turn.seq != 2] == before
    assert archive.turns(ref, epoch=LATER) == others
    assert set(archive.blobs(SHOP, [MINE.sha256, SHARED.sha256])) == {MINE.sha256, SHARED.sha256}
    [first, second] = archive.compactions(ref, epoch=EPOCH)
    assert first == batch().compactions[0]
    assert second.record == batch().compactions[1].record


def test_files_that_somebody_reads_are_not_said_to_be_clean(
    sqlite_url: str, ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(database, "WAIT_S", 0.2)
    archive = SqlArchive.open(sqlite_url)
    archive.store(ref, EPOCH, batch())
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchall()
        archive.erase(ref, EPOCH, emptied())

        assert not archive.rewrite()

    assert archive.rewrite()
    assert places(Path(sqlite_url.removeprefix("sqlite:///")).parent) == []
    archive.close()


# --- What is forgotten is gone, and nothing else is.


MINE, SHARED = image(b"mine" * 300), image(b"shared" * 300)
SECRET_DETAIL = {"template": "default", "raw_output": "a secret"}


def full_batch(*, last_at_ms: int = 5_000) -> Batch:
    return Batch(
        turns=(
            turn(1, blobs=(MINE.sha256, SHARED.sha256)),
            turn(2, blobs=(MINE.sha256,), at_ms=last_at_ms),
        ),
        compactions=(compaction(0, summary="a secret", detail=SECRET_DETAIL),),
        blobs=(MINE, SHARED),
    )


@pytest.fixture
def neighbour(archive: SqlArchive) -> SessionRef:
    """Another session, which shows one of the same images."""
    other = session("neighbour")
    shown = turn(1, blobs=(SHARED.sha256,), at_ms=9_000)
    archive.store(other, EPOCH, Batch(turns=(shown,), blobs=(SHARED,)))
    return other


def test_a_forgotten_session_is_gone(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, full_batch())
    archive.store(ref, LATER, full_batch())
    pushed = Memory(id="p", kind="pushed", text="a secret", session=ref.session)
    archive.remember(SHOP, pushed)
    assert archive.left(ref) == Removed(turns=4, compactions=2, views=2, blobs=6, memories=7)

    removed = archive.forget(ref)

    assert removed == Removed(turns=4, compactions=2, views=2, blobs=2, memories=7)
    assert archive.left(ref) == Removed()
    assert archive.turns(ref) == []
    assert archive.sessions(SHOP) == []
    assert archive.blobs(SHOP, [MINE.sha256, SHARED.sha256]) == {}
    assert archive.memories(SHOP) == []
    assert archive.memory_generation(SHOP) == 1


def test_no_table_names_a_forgotten_session(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, full_batch())
    archive.forget(ref)

    with archive._engine.connect() as connection:
        rows = [
            row for table in METADATA.sorted_tables for row in connection.execute(select(table))
        ]
    assert [tuple(row) for row in rows] == [("shop", 3, 1)], "only the namespace's counters"


def test_forgetting_leaves_other_sessions_whole(
    archive: SqlArchive, ref: SessionRef, neighbour: SessionRef
) -> None:
    before = (archive.left(neighbour), archive.turns(neighbour))
    twin = session(ref.session, "other")
    archive.store(twin, EPOCH, full_batch())
    archive.store(ref, EPOCH, full_batch())

    assert archive.forget(ref).blobs == 1

    assert (archive.left(neighbour), archive.turns(neighbour)) == before
    assert archive.blobs(SHOP, [MINE.sha256, SHARED.sha256]) == {SHARED.sha256: SHARED}
    assert len(archive.blobs(twin.namespace, [MINE.sha256, SHARED.sha256])) == 2
    assert archive.left(twin).turns == 2


def test_an_earlier_incarnation_is_forgotten_alone(archive: SqlArchive, ref: SessionRef) -> None:
    for epoch in ("9", "10", "11"):
        archive.store(ref, epoch, full_batch())

    removed = archive.forget_epochs(ref, through_epoch="10")

    assert removed == Removed(turns=4, compactions=2, views=2, blobs=0, memories=6)
    assert archive.turns(ref, epoch="9") == archive.turns(ref, epoch="10") == []
    assert len(archive.turns(ref, epoch="11")) == 2
    assert set(archive.blobs(SHOP, [MINE.sha256])) == {MINE.sha256}


def test_old_sessions_are_pruned(
    archive: SqlArchive, ref: SessionRef, neighbour: SessionRef
) -> None:
    archive.store(ref, EPOCH, full_batch())
    archive.store(session("old"), EPOCH, Batch(turns=(turn(1),)))
    archive.store(session("old", "other"), EPOCH, Batch(turns=(turn(1),)))

    assert archive.prune(older_than_ms=5_000, namespace=SHOP) == Removed(turns=1, memories=1)
    assert archive.prune(older_than_ms=5_000) == Removed(turns=1, memories=1)

    assert [one.session for one in archive.sessions(SHOP)] == [neighbour.session, ref.session]


CHECKPOINTING = """
import fcntl, sys, time
with open(sys.argv[1], "r+b") as shared:
    fcntl.lockf(shared, fcntl.LOCK_EX, 1, 121)  # SQLite's lock of whoever makes a checkpoint
    print("holds it", flush=True)
    time.sleep(1)
"""


def test_forgotten_content_is_not_left_because_another_worker_made_a_checkpoint(
    sqlite_url: str, tmp_path: Path, ref: SessionRef
) -> None:
    said = "the launch code is 0000"
    with closing(SqlArchive.open(sqlite_url)) as archive:
        archive.store(ref, EPOCH, Batch(turns=(turn(1, {"role": "user", "content": said}),)))
        [shared] = tmp_path.glob("*-shm")
        command = [sys.executable, "-c", CHECKPOINTING, str(shared)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            assert other.stdout
            assert other.stdout.readline() == b"holds it\n"

            archive.forget(ref)

        for file in tmp_path.glob("archive.sqlite3*"):
            assert said.encode() not in file.read_bytes(), file.name
