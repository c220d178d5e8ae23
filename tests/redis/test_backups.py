"""What a restore from the backup that docs/operations.md describes gives back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.chaos.servers import Server
from tests.going_back import Restored
from tests.processes import wait_until
from tests.redis.conftest import Site
from turnmill import Policy
from turnmill.contract.errors import StoreUnavailable
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


def fill_the_disk(server: Server) -> int:
    """Half of a write reaches the disk before it is full, and free again; returns how many keys."""
    with server.admin() as admin:
        server.limit_disk(1_500)
        with pytest.raises(redis.RedisError, match="MISCONF"):  # noqa: PT012 - one of them
            for at in range(500):
                admin.set(f"written {at}", "x" * 1_000)
                time.sleep(0.01)  # Redis appends up to two seconds later while it syncs
        server.limit_disk(None)
        wait_until(lambda: admin.info("persistence")["aof_last_write_status"] == "ok")
        admin.set("written afterwards", "x" * 1_000)
        return int(admin.dbsize())


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Server]:
    """A server that rewrote its journal: Redis 7 leaves a hole in it when the disk is full."""
    with Server(tmp_path / "full") as server:
        server.rewrite()
        yield server


def test_a_backup_made_after_the_disk_was_full_can_be_restored(
    full: Server, tmp_path: Path
) -> None:
    keys = fill_the_disk(full)
    full.back_up(tmp_path / "backup")
    full.restore(tmp_path / "backup")

    with full.admin() as admin:
        assert admin.dbsize() == keys


def test_a_server_whose_disk_was_full_starts_again_with_all_it_had(full: Server) -> None:
    keys = fill_the_disk(full)
    full.rewrite()
    full.stop()
    full.start()

    with full.admin() as admin:
        assert admin.dbsize() == keys


def test_a_server_that_cannot_load_all_its_data_says_why(tmp_path: Path) -> None:
    with Server(tmp_path / "slow", **{"key-load-delay": "30"}) as server:
        server.stop()
        # While it loads these, it answers already, and says that it does.
        server.journal.write_bytes(b"*1\r\n$6\r\nDBSIZE\r\n" * 20_000 + b"no journal any more")

        with pytest.raises(StoreUnavailable, match="Bad file format"):
            server.start()
