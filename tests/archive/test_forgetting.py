"""What is forgotten is gone, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from tests.archive.records import EPOCH, LATER, compaction, image, session, turn
from turnmill.contract.names import Namespace
from turnmill_worker.archive import SqlArchive
from turnmill_worker.archive.schema import METADATA
from turnmill_worker.ports.values import Batch, Memory, Removed, SessionRef

SHOP = Namespace("shop")
MINE, SHARED = image(b"mine" * 300), image(b"shared" * 300)
DETAIL = {"template": "default", "raw_output": "a secret"}


def full_batch(*, last_at_ms: int = 5_000) -> Batch:
    return Batch(
        turns=(
            turn(1, blobs=(MINE.sha256, SHARED.sha256)),
            turn(2, blobs=(MINE.sha256,), at_ms=last_at_ms),
        ),
        compactions=(compaction(0, summary="a secret", detail=DETAIL),),
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


def test_forgetting_twice_removes_nothing_more(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, full_batch())
    archive.forget(ref)

    assert archive.forget(ref) == Removed()
    assert archive.memory_generation(SHOP) == 1


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


def test_a_session_is_as_old_as_its_newest_turn_in_any_incarnation(
    archive: SqlArchive, ref: SessionRef
) -> None:
    archive.store(ref, EPOCH, full_batch())
    archive.store(ref, LATER, full_batch(last_at_ms=50_000))

    assert archive.prune(older_than_ms=50_000) == Removed()
    assert archive.prune(older_than_ms=50_001).turns == 4


def test_pushed_memories_of_no_session_outlive_all(archive: SqlArchive, ref: SessionRef) -> None:
    memory = Memory(id="p", kind="pushed", text="kept")
    archive.remember(SHOP, memory)
    archive.store(ref, EPOCH, full_batch())

    archive.forget(ref)
    archive.prune(older_than_ms=10**12)

    assert [found for _, found in archive.memories(SHOP)] == [memory]


def test_an_image_nothing_shows_is_not_stored(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch(turns=(turn(1),), blobs=(MINE,)))
    assert archive.blobs(SHOP, [MINE.sha256]) == {}

    archive.store(ref, EPOCH, Batch(turns=(turn(2, blobs=(SHARED.sha256,)),)))
    archive.store(ref, EPOCH, Batch(blobs=(SHARED,)))
    assert archive.blobs(SHOP, [SHARED.sha256]) == {SHARED.sha256: SHARED}


def test_forgotten_content_is_not_left_in_the_file(
    sqlite_url: str, tmp_path: Path, ref: SessionRef
) -> None:
    said = "the launch code is 0000"
    archive = SqlArchive.open(sqlite_url)
    long = turn(1, {"role": "user", "content": said * 2_000})
    archive.store(ref, EPOCH, Batch(turns=(long, turn(2, {"role": "user", "content": said}))))

    archive.forget(ref)

    for file in tmp_path.glob("archive.sqlite3*"):
        assert said.encode() not in file.read_bytes(), file.name
    archive.close()
