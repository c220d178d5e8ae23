"""Faults that take Redis to an earlier state: what was acknowledged since may be lost, no more."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.chaos.checker import Loss
from tests.chaos.faults import Gremlin
from tests.chaos.outages import archive_file
from tests.chaos.servers import Sentinel, Server
from tests.chaos.world import World
from tests.processes import wait_until

__all__ = [
    "BACK",
    "cut_the_journal",
    "fail_over_by_sentinel",
    "going_back",
    "promote_without_tail",
    "restore_the_backup",
]

Meanwhile = Callable[[], object]


def _a_while() -> None:
    time.sleep(2.0)  # enough for what is pushed now to be compacted, and archived


def _replica(world: World) -> Server:
    made = Server(world.folder / f"replica-{time.monotonic_ns()}", fsync=world.fsync)
    made.start()
    made.follow(world.store)
    return made


def promote_without_tail(
    world: World, _: random.Random, *, meanwhile: Meanwhile = _a_while
) -> None:
    """A replica that lacks the last writes is promoted, and everybody is led to it."""
    replica = _replica(world)
    since_s = replica.catch_up(world.store)
    replica.lead()
    meanwhile()
    world.losses.append(Loss(since_s, world.take_over(replica)))


def cut_the_journal(world: World, _: random.Random, *, meanwhile: Meanwhile = _a_while) -> None:
    """A crash takes the end of the append-only file with it."""
    with world.store.without_rewrites():  # else there would be another file to cut
        size, since_s = world.store.journal.stat().st_size, time.monotonic()
        meanwhile()
        world.losses.append(Loss(since_s, world.store.crash(cut_to=size)))


def restore_the_backup(world: World, _: random.Random, *, meanwhile: Meanwhile = _a_while) -> None:
    """Everything is lost, and restored from the backup that docs/operations.md describes."""
    backup = world.folder / f"backup-{time.monotonic_ns()}"
    archive = archive_file(world)
    since_s = time.monotonic()
    world.store.back_up(backup)
    meanwhile()
    copy = f"{backup}.db"  # made after that of Redis, not before
    with closing(sqlite3.connect(archive)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    _a_while()
    with world.fleet.ended():
        for end in ("", "-wal", "-shm"):
            Path(f"{archive}{end}").unlink(missing_ok=True)
        shutil.move(copy, archive)
        world.losses.append(Loss(since_s, world.store.restore(backup)))


BACK = (promote_without_tail, cut_the_journal, restore_the_backup)


def fail_over_by_sentinel(world: World, rng: random.Random, *, may_lose: bool = True) -> None:
    """The master dies; Sentinel promotes its replica, and everybody is led to it."""
    replica = _replica(world)
    since_s = replica.catch_up(world.store)
    with Sentinel(world.folder, world.store) as sentinel:
        wait_until(sentinel.knows_replicas, within_s=20, what="Sentinel found the replica")
        time.sleep(rng.uniform(0.0, 0.5))
        world.store.kill()
        # A Sentinel that got no CPU for two seconds does nothing for the next thirty.
        wait_until(lambda: sentinel.master() == replica.port, within_s=60, what="failed over")
        gone_s = world.take_over(replica)
    if may_lose:
        world.losses.append(Loss(since_s, gone_s))


def going_back() -> list[Gremlin]:
    """All of this module."""
    return [Gremlin("store", run) for run in (*BACK, fail_over_by_sentinel)]
