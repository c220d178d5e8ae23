"""Faults of what turnmill stands on: the state store, the broker and the archive."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import redis

from tests.chaos.checker import Loss
from tests.chaos.faults import Gremlin
from tests.chaos.world import World

__all__ = [
    "archive_file",
    "of_servers",
]

EVERYSEC_LOSES_S = 2.0
"""How much `appendfsync everysec` may lose (docs/operations.md)."""


def crash_the_store(world: World, rng: random.Random) -> None:
    """SIGKILL Redis and start it again with its data."""
    time.sleep(rng.uniform(0, 0.3))
    gone_s = world.store.crash()
    if world.fsync != "always":
        world.losses.append(Loss(gone_s - EVERYSEC_LOSES_S, gone_s))


def pause_the_store(world: World, rng: random.Random) -> None:
    """SIGSTOP Redis: connections stay, and nothing answers."""
    world.store.pause(rng.uniform(0.3, 2.5))


def pause_clients(world: World, rng: random.Random) -> None:
    """CLIENT PAUSE."""
    pause_s = rng.uniform(0.3, 1.5)
    with world.store.admin() as client:
        client.client_pause(int(pause_s * 1000))
    time.sleep(pause_s)


def kill_clients(world: World, rng: random.Random) -> None:
    """CLIENT KILL of every connection, several times."""
    for _ in range(rng.randint(1, 4)):
        with world.store.admin() as client, suppress(redis.RedisError):
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        time.sleep(rng.uniform(0.05, 0.3))


def forget_scripts(world: World, rng: random.Random) -> None:
    """SCRIPT FLUSH."""
    time.sleep(rng.uniform(0, 0.2))
    with world.store.admin() as client:
        client.script_flush()


def fill_the_memory(world: World, rng: random.Random) -> None:
    """Redis at maxmemory for a while."""
    world.store.limit_memory(rng.randint(-100_000, 100_000))
    time.sleep(rng.uniform(0.5, 1.5))
    world.store.limit_memory(None)


def fill_the_disk(world: World, rng: random.Random) -> None:
    """Redis cannot append to its journal for a while: it refuses writes, and goes on afterwards.

    Its operator has it write the journal anew then: there may be a hole in it.
    """
    world.store.limit_disk(rng.randint(0, 50_000))
    time.sleep(rng.uniform(0.5, 1.5))
    with suppress(psutil.NoSuchProcess):
        world.store.limit_disk(None)
    if not world.store.answers():
        # With `appendfsync always` it ends itself, for it cannot keep its word.
        world.store.crash()
    world.store.rewrite()


def crash_the_broker(world: World, rng: random.Random) -> None:
    """The broker dies with all its messages, and is away for a while."""
    world.broker.kill()
    time.sleep(rng.uniform(0.1, 1.5))
    world.broker.start()


def flush_the_broker(world: World, rng: random.Random) -> None:
    """Every message is gone, those on their way to a worker too."""
    time.sleep(rng.uniform(0, 0.2))
    with world.broker.admin() as client:
        client.flushall()


def archive_file(world: World) -> Path:
    return Path(world.archive_url.removeprefix("sqlite:///"))


def lock_the_archive(world: World, rng: random.Random) -> None:
    """Somebody else writes into the SQLite file, and takes their time."""
    other = sqlite3.connect(archive_file(world), timeout=5, isolation_level=None)
    with closing(other), suppress(sqlite3.OperationalError):
        other.execute("BEGIN IMMEDIATE")
        time.sleep(rng.uniform(0.5, 2.5))
        other.execute("ROLLBACK")


def fill_the_archive(world: World, rng: random.Random) -> None:
    """The disk of the archive is full: no file of a worker may grow any more."""
    file = archive_file(world)
    most = max(file.stat().st_size, 4096) if file.exists() else 4096
    family = [each for worker in world.fleet.workers for each in worker.family()]
    _limit_files(family, most)
    time.sleep(rng.uniform(0.5, 1.5))
    _limit_files(family, psutil.RLIM_INFINITY)


def _limit_files(processes: list[psutil.Process], most: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, (most, psutil.RLIM_INFINITY))


def of_servers(*, sqlite: bool = True) -> list[Gremlin]:
    """All of this module that lose nothing, but for what `appendfsync` says."""
    store = (
        *(crash_the_store, pause_the_store, pause_clients, kill_clients, forget_scripts),
        *(fill_the_memory, fill_the_disk),
    )
    found = [Gremlin("store", run) for run in store]
    found += [Gremlin("broker", run) for run in (crash_the_broker, flush_the_broker)]
    if sqlite:
        found += [Gremlin("archive", run) for run in (lock_the_archive, fill_the_archive)]
    return found
