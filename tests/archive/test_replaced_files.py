"""A SQLite archive whose file is replaced, as by a restore, while workers have it open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.archive.records import EPOCH, turn
from turnmill_worker.archive import ArchiveUnavailable, SqlArchive
from turnmill_worker.ports.values import Batch, SessionRef


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
