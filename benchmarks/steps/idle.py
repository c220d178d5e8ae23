"""What workers cost that have nothing to do, and how soon a turn is counted that is due at once."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.steps.measure import environment
from benchmarks.steps.processes import Cpu, workers
from benchmarks.steps.turns import turns
from turnmill import ContextClient, Policy
from turnmill.client.commands import Commands
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.images import DEFAULT_MAX_IMAGE_BYTES
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES

__all__ = ["Idle", "idle"]

PUSHES = 60
SMALL = Policy(max_tokens=2048)
TURNS = 12
"""Together well above the soft limit of ``SMALL``."""


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Shares of a core, and milliseconds.

    Attributes:
        namespaces: known to Redis, and idle.
        workers, redis: shares of a core over ``seconds``.
        counted_ms: from a push that is due at once until it is counted.
    """

    namespaces: int
    seconds: float
    workers: float
    redis: float
    counted_ms: list[float]

    def row(self) -> str:
        """Of a markdown table."""
        cut = statistics.quantiles(self.counted_ms, n=100, method="inclusive")
        return (
            f"| {self.namespaces:,} | {self.workers:.2%} | {self.redis:.2%} | "
            f"{cut[49]:.1f} / {cut[94]:.1f} |"
        )


HEAD = (
    "| idle namespaces | workers, share of a core | Redis | push to counted p50 / p95, ms |",
    "|---|---|---|---|",
)


def idle(namespaces: int, *, kind: str = "pair", seconds: float = 20.0) -> Idle:
    """Measure both with so many namespaces there."""
    with tempfile.TemporaryDirectory(prefix="steps-") as name:
        folder = Path(name)
        with EmbeddedRedis(folder / "redis") as server:
            _register(server.url, namespaces)
            env = environment(server.url, "http://127.0.0.1:9/v1", folder / "data")
            with workers(kind, folder, env, "") as staff:
                counted = _counted_ms(server.url)[PUSHES // 4 :]
                time.sleep(8)  # what the pushes left to do is done, and sweeps have slowed down
                assert server.pid is not None
                cpu = Cpu({"redis": server.pid, **{each.name: each.pid for each in staff}})
                before, begun = cpu.now(), time.monotonic()
                time.sleep(seconds)
                after, took = cpu.now(), time.monotonic() - begun
    shares = {who: (after[who] - before.get(who, 0.0)) / took for who in after}
    return Idle(
        namespaces=namespaces,
        seconds=seconds,
        redis=shares.pop("redis"),
        workers=sum(shares.values()),
        counted_ms=counted,
    )


def _register(url: str, number: int) -> None:
    """List namespaces as clients do that pushed a while ago."""
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        for at in range(number):
            commands = Commands.of(f"tenant-{at}", DEFAULT_MAX_TURN_BYTES, DEFAULT_MAX_IMAGE_BYTES)
            pipe.execute_command(*commands.registration(pushes=0))
        pipe.execute()


def _counted_ms(url: str) -> list[float]:
    """Of sessions that one push takes above their soft limit."""
    found = []
    with ContextClient(url, namespace="tenant-0") as client:
        for at in range(PUSHES):
            session = f"s{at}"
            client.open(session, SMALL)
            turn = [message for each in turns(at, TURNS) for message in each]
            begun = time.perf_counter()
            seq = client.push(session, turn).seq
            while client.info(session).counted_seq < seq:
                time.sleep(0.001)
            found.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.05)
    return found
