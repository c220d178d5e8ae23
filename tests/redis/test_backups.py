"""What a restore from the backup that docs/operations.md describes gives back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.going_back import Restored
from tests.redis.conftest import Site
from turnmill import Policy
from turnmill_worker.archive import SqlArchive


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Restored]:
    with Restored(tmp_path) as started:
        yield started


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[SqlArchive]:
    with closing(SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")) as opened:
        yield opened


@pytest.fixture
def site(store: Restored, archive: SqlArchive) -> Site:
    made = Site(store, archive)
    made.agent.open("s", Policy(max_tokens=512))
    return made


def copied(folder: Path) -> Path:
    """A copy of the archive in use, as ``sqlite3 archive.db ".backup copy.db"`` makes it."""
    copy = folder / "copy.db"
    with (
        closing(sqlite3.connect(folder / "archive.db")) as one,
        closing(sqlite3.connect(copy)) as two,
    ):
        one.backup(two)
    return copy


def restored(store: Restored, copy: Path) -> Site:
    """The site with both copies put back."""
    store.go_back()
    return Site(store, SqlArchive.open(f"sqlite:///{copy}"))


def test_a_backup_with_archiving_paused_gives_back_every_turn_up_to_it(
    site: Site, store: Restored, tmp_path: Path
) -> None:
    said = site.say("first")
    site.compact()
    site.store_away()
    copy = copied(tmp_path)  # from here on, no archive worker runs
    said += site.say("meanwhile")
    site.compact()
    store.note()  # from here on, one runs again
    site.store_away()
    site.say("after")
    site.compact()
    site.store_away()

    after = restored(store, copy)
    said += after.say("new")
    after.compact()
    after.store_away()

    assert after.told() == said
    assert after.lost() == []
    after.archive.close()


def test_an_archive_copied_later_than_redis_keeps_apart_what_redis_has_not(
    site: Site, store: Restored, tmp_path: Path
) -> None:
    said = site.say("first")
    store.note()
    site.say("between")
    site.compact()
    site.store_away()
    copy = copied(tmp_path)

    after = restored(store, copy)
    assert after.lost() != []
    said += after.say("new")
    after.compact()
    after.store_away()

    assert after.told() == said
    after.archive.close()
