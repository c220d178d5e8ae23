"""Faults of processes, connections, hints and models: each breaks one thing and mends it again."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import psutil
import redis
from celery import Celery

from tests.chaos.proxy import Action, Trap
from tests.chaos.workers import LEASE_S, Worker
from tests.chaos.world import World
from turnmill import TurnmillError
from turnmill.contract import jobs
from turnmill.testing import FAULTS, Fault

__all__ = ["STEPS", "Gremlin", "of_processes", "send_hints"]

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


def change_the_version_of_a_worker(world: World, rng: random.Random) -> None:
    """Upgrade a worker alone, or downgrade it again: both versions serve the same sessions."""
    worker = rng.choice(world.fleet.workers)
    worker.end(signal.SIGTERM)
    _wait_for_the_end(worker)
    worker.kill()
    worker.switch(world.newer.env)
    _supervise(world)


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


def freeze_an_agent(world: World, rng: random.Random) -> None:
    """SIGSTOP an agent for a while."""
    process = psutil.Process(world.agent_pid(rng.choice(world.agents)))
    process.suspend()
    time.sleep(rng.uniform(0.5, 2.0))
    process.resume()


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


def shuffle_hints(world: World, rng: random.Random) -> None:
    """Put what waits in the broker into another order, some of it twice."""
    with world.broker.admin() as client:
        for queue in jobs.QUEUES:
            with suppress(redis.RedisError):
                waiting = client.lrange(queue, 0, -1)
                if waiting:
                    client.delete(queue)
                    client.rpush(queue, *rng.choices(waiting, k=len(waiting)), waiting[0])


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
        Gremlin("worker", change_the_version_of_a_worker),
        Gremlin("agent", sigkill_an_agent),
        Gremlin("agent", freeze_an_agent),
        Gremlin("step", break_a_worker_between_steps),
        Gremlin("step", wake_a_zombie),
        Gremlin("step", break_an_agent_between_steps),
        Gremlin("step", reset_all_connections),
        Gremlin("step", delay_replies),
        Gremlin("model", fail_the_model),
        Gremlin("broker", double_hints),
        Gremlin("broker", shuffle_hints),
    ]
