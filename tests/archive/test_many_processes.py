"""Many processes share an archive: they start, write, die and replace its file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.archive import processes
from tests.archive.records import EPOCH, session, turn
from turnmill.contract.names import Namespace
from turnmill_worker.archive import ArchiveUnavailable, SqlArchive
from turnmill_worker.ports.values import Batch, SessionRef

# --- Many worker processes share one archive.


SHOP = Namespace("shop")
ROOT = Path(__file__).parents[2]


def test_workers_that_start_at_once_make_one_archive(empty_url: str) -> None:
    with processes.pool(4) as pool:
        start = time.time() + 3
        opened = [pool.submit(processes.open_and_store, empty_url, at, start) for at in range(4)]
        for one in opened:
            one.result()

    archive = SqlArchive.open(empty_url)
    assert len(archive.sessions(SHOP)) == 4
    archive.close()


def test_concurrent_writers_lose_and_double_nothing(empty_url: str, archive: SqlArchive) -> None:
    workers, batches = 3, 6
    with processes.pool(workers) as pool:
        writing = [
            pool.submit(processes.store_in_turns, empty_url, at, batches) for at in range(workers)
        ]
        seen, after = 0, 0
        while not all(one.done() for one in writing):
            found = archive.memories(SHOP, after=after)
            seen, after = seen + len(found), found[-1][0] if found else after
        for one in writing:
            one.result()
    seen += len(archive.memories(SHOP, after=after))

    for at in range(workers):
        assert len(archive.turns(session(f"agent-{at}"))) == batches * 10
    assert len(archive.turns(session("shared"))) == batches * 10
    assert {one.turns for one in archive.sessions(SHOP)} == {batches * 10}
    everything = len(archive.memories(SHOP, most=10_000))
    assert everything == (workers + 1) * batches * 10 + workers * batches
    assert seen == everything, "following by cursor misses nothing that becomes visible late"


def test_a_killed_writer_leaves_whole_batches_and_all_it_reported(
    empty_url: str, archive: SqlArchive, ref: SessionRef
) -> None:
    command = [sys.executable, "-m", "tests.archive.processes", empty_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        reported = [writer.stdout.readline() for _ in range(20)]
        writer.kill()
        reported += writer.stdout.read().splitlines()

    stored = len(archive.turns(ref))
    assert stored % 50 == 0
    assert stored >= 50 * len(reported)
    assert len(archive.memories(SHOP, most=10**6)) == stored


# --- A SQLite archive whose file is replaced, as by a restore, while workers have it open.


@pytest.fixture
def in_use(sqlite_url: str, ref: SessionRef) -> Iterator[SqlArchive]:
    """An archive with one turn, that somebody has open."""
    with closing(SqlArchive.open(sqlite_url)) as opened:
        opened.store(ref, EPOCH, Batch(turns=(turn(1),)))
        opened._scrub()
        yield opened


def replace(tmp_path: Path) -> None:
    """Put a copy back, as docs/operations.md says, but with workers running."""
    shutil.copy(tmp_path / "archive.sqlite3", tmp_path / "copy")
    remove(tmp_path)
    (tmp_path / "copy").rename(tmp_path / "archive.sqlite3")


def remove(tmp_path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"archive.sqlite3{end}").unlink(missing_ok=True)


def seqs(url: str, ref: SessionRef) -> list[int]:
    with closing(SqlArchive.open(url)) as another:
        return [each.seq for each in another.turns(ref)]


def test_what_is_stored_after_a_restore_is_in_the_file_that_was_restored(
    in_use: SqlArchive, sqlite_url: str, ref: SessionRef, tmp_path: Path
) -> None:
    replace(tmp_path)

    in_use.store(ref, EPOCH, Batch(turns=(turn(2),)))

    assert seqs(sqlite_url, ref) == [1, 2]
    assert len(in_use.turns(ref)) == 2


def test_what_is_committed_to_a_file_that_was_replaced_counts_as_not_stored(
    in_use: SqlArchive, sqlite_url: str, ref: SessionRef, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveUnavailable, match="replaced"), in_use._write():
        replace(tmp_path)

    in_use.store(ref, EPOCH, Batch(turns=(turn(2),)))
    assert seqs(sqlite_url, ref) == [1, 2]


def test_no_empty_archive_takes_the_place_of_a_file_that_is_gone(
    in_use: SqlArchive, sqlite_url: str, ref: SessionRef, tmp_path: Path
) -> None:
    shutil.copy(tmp_path / "archive.sqlite3", tmp_path / "copy")
    remove(tmp_path)

    with pytest.raises(ArchiveUnavailable, match="gone"):
        in_use.store(ref, EPOCH, Batch(turns=(turn(2),)))
    assert not (tmp_path / "archive.sqlite3").exists()

    (tmp_path / "copy").rename(tmp_path / "archive.sqlite3")
    in_use.store(ref, EPOCH, Batch(turns=(turn(2),)))
    assert seqs(sqlite_url, ref) == [1, 2]
