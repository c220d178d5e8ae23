"""What is erased from the archive is in none of its files, and nothing brings it back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary

from tests.archive.postgres import Postgres
from tests.archive.records import EPOCH, LATER, compaction, image, session, turn
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.archive import SqlArchive, database
from turnmill_worker.archive.schema import METADATA, Said
from turnmill_worker.ports.values import (
    ArchivedTurn,
    Batch,
    Emptied,
    Erasure,
    Gone,
    Memory,
    SessionRef,
)
from turnmill_worker.requests.erasure import tombstone

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


def test_files_of_postgresql_s_log_that_are_recycled_are_overwritten_as_operations_says(
    postgres: Postgres,
) -> None:
    def files() -> list[Path]:
        found = sorted((postgres.data / "pg_wal").glob("0*"))
        return [file for file in found if SAID.encode() in file.read_bytes()]

    with postgres.admin() as admin:
        admin.execute("CREATE TABLE said (words bytea)")
        for _ in range(5):
            many = "INSERT INTO said SELECT %s FROM generate_series(1, 15000)"
            admin.execute(many, (f"{SAID:1000}".encode(),))
        admin.execute("DROP TABLE said; CHECKPOINT")
        assert len(files()) > 1
        [(count,)] = admin.execute("SELECT count(*) FROM pg_ls_waldir()").fetchall()

        for _ in range(count + 1):
            admin.execute("SELECT pg_switch_wal(); CHECKPOINT;")

    assert files() == []


def test_words_that_are_not_erased_are_in_the_files(
    archive: SqlArchive, ref: SessionRef, files: Path
) -> None:
    archive.store(ref, EPOCH, batch())

    assert archive.rewrite()

    assert places(files) != []


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


def test_a_dry_run_counts_and_changes_nothing(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, batch())
    before = (archive.turns(ref), archive.compactions(ref), archive.memories(SHOP))

    told = archive.erase(ref, EPOCH, emptied(), dry_run=True)

    assert (archive.turns(ref), archive.compactions(ref), archive.memories(SHOP)) == before
    assert archive.erase(ref, EPOCH, emptied()) == told


def test_records_of_erasures_are_kept_until_the_session_is_forgotten(
    archive: SqlArchive, ref: SessionRef
) -> None:
    first, second = record("a", ref.session, 1_000), record("b", SessionId("other"), 2_000)
    for each in (second, first):
        archive.note_erasure(SHOP, each)

    assert archive.erasures(SHOP) == [first, second]
    assert archive.erasures(SHOP, ref.session) == [first]
    archive.forget_epochs(ref, through_epoch="999000")
    assert archive.erasures(SHOP, ref.session) == [first], "a later incarnation's"
    archive.forget(ref)
    assert archive.erasures(SHOP) == [second]


def record(name: str, session_name: SessionId, at_ms: int) -> Erasure:
    return Erasure(
        id=name,
        session=session_name,
        at_ms=at_ms,
        by="the keeper",
        how="subject",
        turns=(Seq(2), Seq(5)),
        contexts=1,
        checkpoints=2,
        memories=3,
        images=4,
    )


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
