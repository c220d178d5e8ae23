"""A journal whose disk was full is whole again after what docs/operations.md says to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.chaos.servers import Server
from tests.processes import wait_until
from turnmill.contract.errors import StoreUnavailable


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
