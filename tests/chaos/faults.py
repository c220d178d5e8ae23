"""Faults of processes, connections, hints and models: each breaks one thing and mends it again."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import psutil
from celery import Celery

from tests.chaos.checker import Loss
from tests.chaos.proxy import Action, Trap
from tests.chaos.servers import Sentinel, Server
from tests.chaos.world import LEASE_S, Worker, World
from tests.processes import wait_until
from turnmill import TurnmillError
from turnmill.contract import jobs
from turnmill.testing import FAULTS, Fault

Target = Literal["worker", "agent", "store", "broker", "archive", "model", "step"]
TARGETS: Final[Sequence[Target]] = get_args(Target)


@dataclass(frozen=True, slots=True)
class Gremlin:
    """A fault by chance; two of one target are never at work at once."""

    target: Target
    run: Callable[[World, random.Random], object]

    @property
    def name(self) -> str:
        """What it does."""
        return self.run.__name__.replace("_", " ")


STEPS: Final = {
    "worker": (
        *("uncounted", "count", "claim", "snapshot", "commit", "release", "renew"),
        *("undrained", "drained", "take", "admit", "overdue"),
    ),
    "agent": ("push", "HMGET", "XRANGE"),
}
"""The commands before, during and after which a step of a process may end."""


def sigkill_a_worker(world: World, rng: random.Random) -> None:
    """End a worker and its children at once; a supervisor starts it again."""
    rng.choice(world.fleet.workers).end(signal.SIGKILL)
    _supervise(world)


def sigterm_a_worker(world: World, rng: random.Random) -> None:
    """Ask a worker to finish its jobs and end."""
    worker = rng.choice(world.fleet.workers)
    worker.end(signal.SIGTERM)
    _wait_for_the_end(worker)
    _supervise(world)


def _wait_for_the_end(worker: Worker) -> None:
    end_s = time.monotonic() + 10
    while worker.alive and time.monotonic() < end_s:
        time.sleep(0.05)


def sigkill_a_child(world: World, rng: random.Random) -> None:
    """End a process of a prefork worker, or what there is."""
    family = rng.choice(world.fleet.workers).family()
    if len(family) > 1:
        with suppress(psutil.NoSuchProcess):
            rng.choice(family[:-1]).kill()


def freeze_a_worker(world: World, rng: random.Random) -> None:
    """SIGSTOP a worker until its leases are over, and let it go on."""
    worker = rng.choice(world.fleet.workers)
    worker.freeze()
    time.sleep(LEASE_S + rng.uniform(0.2, 1.0))
    worker.thaw()


def sigkill_an_agent(world: World, rng: random.Random) -> None:
    """End an agent in the middle of a call; another one goes on."""
    world.end_agent(rng.choice(world.agents), signal.SIGKILL)


def break_a_worker_between_steps(world: World, rng: random.Random) -> None:
    """Cut or stall a worker's connection before, during or after one of its commands."""
    action = rng.choice(("cut before", "cut after", "cut mid-reply", "stall", "stall", "call"))
    trap = Trap(
        command=rng.choice(STEPS["worker"]),
        action=cast("Action", action),
        nth=rng.randint(1, 3),
        seconds=LEASE_S + rng.uniform(0.1, 0.8),
        call=rng.choice(world.fleet.workers).kill if action == "call" else None,
    )
    world.back.set(trap).sprung.wait(timeout=3)
    if action == "call":
        _supervise(world)


def wake_a_zombie(world: World, _: random.Random) -> None:
    """A commit comes after its lease, when somebody else has committed for the session."""
    zombie = world.back.set(Trap("commit", "freeze"))
    try:
        if zombie.sprung.wait(timeout=3):
            with world.client() as client, suppress(TurnmillError):
                version = client.info(zombie.session).version
                end_s = time.monotonic() + LEASE_S + 4
                while client.info(zombie.session).version == version and time.monotonic() < end_s:
                    time.sleep(0.05)
    finally:
        zombie.released.set()


def break_an_agent_between_steps(world: World, rng: random.Random) -> None:
    """The same with an agent's connection."""
    actions = ("cut before", "cut after", "cut mid-reply", "stall", "stall", "stall")
    traps = [
        Trap(
            command=rng.choice(STEPS["agent"]),
            action=cast("Action", rng.choice(actions)),
            nth=rng.randint(1, 10),
            seconds=rng.uniform(0.1, 0.9),
        )
        for _ in range(rng.randint(1, 20))
    ]
    for trap in traps:
        world.front.set(trap)
    traps[-1].sprung.wait(timeout=1)


def reset_all_connections(world: World, rng: random.Random) -> None:
    """Reset every connection of agents, or of workers."""
    rng.choice((world.front, world.back)).cut_all()


def delay_replies(world: World, rng: random.Random) -> None:
    """A slow network, for a while."""
    proxy = rng.choice((world.front, world.back))
    proxy.delay_s = rng.uniform(0.01, 0.2)
    time.sleep(rng.uniform(0.5, 1.5))
    proxy.delay_s = 0.0


def fail_the_model(world: World, rng: random.Random) -> None:
    """The next answers of the model are wrong in some way."""
    kinds = [kind for kind in FAULTS if kind not in ("huge", "drip")]  # they only take long
    world.endpoint.hang_s = 3.0
    world.endpoint.fail_next(*cast("list[Fault]", rng.choices(kinds, k=rng.randint(1, 6))))


def double_hints(world: World, rng: random.Random) -> None:
    """Hints for all sessions, several times each and in no order."""
    names = [name for name in world.sessions for _ in range(rng.randint(0, 2))]
    rng.shuffle(names)
    send_hints(world, [(rng.choice(_HINTED), name) for name in names])


_HINTED = (jobs.ESTIMATE, jobs.COMPACT, jobs.SUMMARIZE, jobs.ARCHIVE, jobs.SWEEP)


def send_hints(world: World, hints: Sequence[tuple[str, str]]) -> None:
    """Publish hints as anybody could: tasks with sessions."""
    app: Any = Celery("chaos", broker=world.broker.url, set_as_current=False)
    with app, suppress(Exception):
        for task, session in hints:
            queue = jobs.QUEUE_OF[task]
            app.send_task(task, args=(world.namespace, session), queue=queue, retry=False)


def _supervise(world: World) -> None:
    world.fleet.replace()


def of_processes() -> list[Gremlin]:
    """All of this module."""
    return [
        Gremlin("worker", sigkill_a_worker),
        Gremlin("worker", sigterm_a_worker),
        Gremlin("worker", sigkill_a_child),
        Gremlin("worker", freeze_a_worker),
        Gremlin("agent", sigkill_an_agent),
        Gremlin("step", break_a_worker_between_steps),
        Gremlin("step", wake_a_zombie),
        Gremlin("step", break_an_agent_between_steps),
        Gremlin("step", reset_all_connections),
        Gremlin("step", delay_replies),
        Gremlin("model", fail_the_model),
        Gremlin("broker", double_hints),
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
    store = (*(crash_the_store, pause_the_store, fill_the_memory, fill_the_disk),)
    found = [Gremlin("store", run) for run in store]
    found += [Gremlin("broker", run) for run in (crash_the_broker, flush_the_broker)]
    if sqlite:
        found += [Gremlin("archive", run) for run in (lock_the_archive, fill_the_archive)]
    return found


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
