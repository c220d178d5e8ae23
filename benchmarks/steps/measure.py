"""One run of one contestant: start everything, put the load on, look at what it cost."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import redis

from benchmarks.steps.load import Load, Outcome
from benchmarks.steps.processes import QUIET_S, Cpu, Cpus, Pins, quiet, workers
from benchmarks.steps.spoken import Agents, Endpoint
from benchmarks.steps.turns import mark
from tests.worker.harness import Events
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import QUEUES
from turnmill_worker.tokens import counter_for

__all__ = ["KEY", "Run", "Setup", "count_contexts", "environment", "measured"]

KEY = "sk-for-benchmarks-only"
LATENCY_S = 0.8


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a run is made.

    Attributes:
        workers: which processes the workers are: ``pair``, ``up`` or ``compose``.
        pins: the cores of agents with Redis, and of workers.
        events: count tasks; the counting disturbs the CPU times.
        latency_s: of the model.
        quiet_s: for how long workers must have done nothing to count as done.
    """

    workers: str = "pair"
    pins: Pins = field(default_factory=Pins)
    events: bool = False
    latency_s: float = LATENCY_S
    quiet_s: float = QUIET_S


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of it.

    Attributes:
        cpu_ms: per turn, by process; those of the model's endpoint are nobody's cost.
        settled_s: from the last step until the workers were done.
        tasks: received by workers, by name; only where they were counted.
        asked: calls of the model.
    """

    name: str
    load: Load
    setup: Setup
    outcome: Outcome
    cpu_ms: Cpus
    settled_s: float
    asked: int
    tasks: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """What ``as_json`` wrote."""
        setup = found["setup"]
        return cls(
            **{
                **found,
                "load": Load(**found["load"]),
                "setup": Setup(**{**setup, "pins": Pins(**setup["pins"])}),
                "outcome": Outcome(**found["outcome"]),
            }
        )


def measured(name: str, load: Load, setup: Setup, python: str = sys.executable) -> Run:
    """Run it once, in processes of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steps-")))
        launcher = Pins.launcher(setup.pins.agents)
        server = stack.enter_context(EmbeddedRedis(folder / "redis", launcher=launcher))
        endpoint = stack.enter_context(Endpoint.started(sys.executable, setup.latency_s))
        load = replace(load, redis_url=server.url, model_url=endpoint.url)
        load = replace(load, archive=str(folder / "data" / "archive.db"))
        assert server.pid is not None
        pids = {"redis": server.pid, "endpoint": endpoint.pid}
        if name.startswith("turnmill"):
            env = environment(server.url, endpoint.url, folder / "data")
            staff = stack.enter_context(workers(setup.workers, folder, env, setup.pins.workers))
            pids |= {each.name: each.pid for each in staff}
        events = stack.enter_context(Events(server.url)) if setup.events else None
        agents = stack.enter_context(Agents.started(name, load, [*launcher, python]))
        return _observed(name, load, setup, agents, endpoint, pids, events)


def _observed(
    name: str,
    load: Load,
    setup: Setup,
    agents: Agents,
    endpoint: Endpoint,
    pids: dict[str, int],
    events: Events | None,
) -> Run:
    """What the agents saw, and what it cost from when all is warm to when all is done."""
    agents.expect("ready")
    quiet(Cpu(pids), for_s=setup.quiet_s)
    asked, seen = endpoint.tell()["asked"], len(events.seen) if events else 0
    cpu = Cpu({"agents": agents.pid, **pids})
    before = cpu.now()
    agents.say("")
    agents.expect("done")
    done = time.monotonic()
    _queues_empty(load.redis_url)
    waited_s = time.monotonic() - done
    settled_s = waited_s + quiet(cpu, for_s=setup.quiet_s)
    after = cpu.now()
    outcome = agents.outcome()
    told = endpoint.tell("marks")
    count_contexts(outcome.notes, load, told["marks"])
    number = load.agents * load.turns
    return Run(
        name=name,
        load=load,
        setup=setup,
        outcome=outcome,
        cpu_ms={who: (after[who] - before.get(who, 0.0)) / number * 1000 for who in after},
        settled_s=settled_s,
        asked=told["asked"] - asked,
        tasks=_tasks(events.seen[seen:]) if events else {},
    )


def count_contexts(notes: dict[str, Any], load: Load, told: Sequence[str]) -> None:
    """What a peer shows of its contexts as numbers: those over the window, and turns lost.

    A turn is lost if it is in no session's last context, and no model was asked to summarize it.
    """
    if "contexts" not in notes:
        return
    contexts, last = notes.pop("contexts"), notes.pop("last")
    counter = counter_for()
    notes["looked_at"] = len(contexts) + len(last)
    notes["over"] = sum(counter.count(text) > load.window for text in [*contexts, *last])
    everywhere = "".join(last)
    marks = [mark(s, at) for s in range(load.agents) for at in range(1, load.turns + 1)]
    known = set(told)
    notes["lost"] = sum(each not in known and each not in everywhere for each in marks)


def environment(redis_url: str, model_url: str, data: Path) -> dict[str, str]:
    """What a user would set, and no more."""
    data.mkdir()
    return {
        "TURNMILL_REDIS_URL": redis_url,
        "TURNMILL_BROKER_URL": redis_url,
        "TURNMILL_DATA_DIR": str(data),
        "TURNMILL_ARCHIVE_URL": "",
        "TURNMILL_MODEL_URL": model_url,
        "TURNMILL_MODEL_KEY": KEY,
    }


def _tasks(events: list[dict[str, Any]]) -> dict[str, int]:
    """How many tasks workers received, by name."""
    names = [event.get("name") or "?" for event in events if event["type"] == "task-received"]
    return {name: names.count(name) for name in sorted(set(names))}


def _queues_empty(url: str, within_s: float = 120.0) -> None:
    """Wait until no message waits: a worker that is busy elsewhere is quiet, not done."""
    deadline = time.monotonic() + within_s
    with redis.Redis.from_url(url) as client:
        while any(client.llen(queue) for queue in QUEUES) and time.monotonic() < deadline:
            time.sleep(0.25)
