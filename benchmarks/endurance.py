"""Many agents for a long time: nothing may be slower or larger in the end than in the middle.

``python -m benchmarks.endurance --minutes 30``, against a redis-server and workers of its own. All
memory should be flat once every session was compacted a few times; only the archive grows.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import redis

from benchmarks.steps.measure import environment
from benchmarks.steps.processes import workers
from benchmarks.steps.turns import turns
from tests.image_parts import png, showing
from turnmill import AsyncContextClient, Policy, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.context import JsonMessage

POLICY = Policy(max_tokens=2_048, max_history_images=2)
SHOWS_EVERY = 8
"""Every so many turns an agent shows an image, in one of four sessions."""

ROUND = 40
"""Turns of a session that are made; then they come again, under other ids."""

TOLD = 40
"""Conversations that are made; sessions beyond have the same as others."""

HEAD = (
    "minute",
    "turns/s",
    "step p50 / p99, ms",
    "failed so far",
    "Redis, MB",
    "workers, MB",
    "images in Redis",
    "keys",
    "not archived",
    "archive, MB",
)


@cache
def _made(seed: int) -> list[list[JsonMessage]]:
    return turns(seed, ROUND)


@dataclass
class Load:
    """What the agents do, and what they saw since the last look."""

    sessions: int
    think_s: float
    end_s: float
    blocked_ms: list[float] = field(default_factory=list)
    failed: int = 0

    async def run(self, url: str) -> None:
        """All agents of the process with one client, as it is meant to be."""
        client = AsyncContextClient(url, namespace="endurance")
        async with client, asyncio.TaskGroup() as group:
            for at in range(self.sessions):
                await client.open(f"agent-{at}", POLICY)
                group.create_task(self._agent(client, at))

    async def _agent(self, client: AsyncContextClient, at: int) -> None:
        chance, session = random.Random(at), f"agent-{at}"
        made = _made(at % TOLD)
        number = 0
        await asyncio.sleep(chance.random() * self.think_s)
        while time.monotonic() < self.end_s:
            turn: list[JsonMessage] = made[number % ROUND]
            if at % 4 == 0 and number % SHOWS_EVERY == 0:
                turn = [showing(png(at * 1000 + number, size=1200), text="Look at this parcel.")]
            begun = time.perf_counter()
            try:
                await client.push(session, turn)
                await client.read(session)
            except StoreUnavailable:
                self.failed += 1
            self.blocked_ms.append((time.perf_counter() - begun) * 1000)
            number += 1
            await asyncio.sleep(self.think_s * (0.5 + chance.random()))


def _look(server: EmbeddedRedis, pids: list[int], archive: Path) -> Iterator[str]:
    """What is held now, as cells."""
    with redis.Redis.from_url(server.url) as client:
        info: Any = client.info("memory")
        names = list(client.scan_iter(count=5000))
        waits = sum(client.zcard(name) for name in names if name.endswith(b"unarchived"))
    yield f"{info['used_memory'] / 1e6:.1f}"
    main = [psutil.Process(pid) for pid in pids]
    family = [each for one in main for each in (one, *one.children(recursive=True))]
    yield f"{sum(each.memory_info().rss for each in family) / 1e6:.0f}"
    yield str(sum(b":blob:" in name and not name.endswith(b":held") for name in names))
    yield str(len(names))
    yield str(waits)
    yield f"{archive.stat().st_size / 1e6:.1f}" if archive.exists() else "0"


async def _watch(load: Load, every_s: float, server: EmbeddedRedis, *where: Any) -> None:
    begun = since = time.monotonic()
    while since < load.end_s:
        await asyncio.sleep(every_s)
        cells = await asyncio.to_thread(lambda: list(_look(server, *where)))
        now, seen, load.blocked_ms = time.monotonic(), sorted(load.blocked_ms), []
        p50, p99 = (seen[int(len(seen) * share)] for share in (0.5, 0.99)) if seen else (0.0, 0.0)
        first = [f"{(now - begun) / 60:.1f}", f"{len(seen) / (now - since):.0f}"]
        _row([*first, f"{p50:.1f} / {p99:.1f}", str(load.failed), *cells])
        since = now


def _row(cells: list[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """One run, as a table that grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--think-s", type=float, default=5.0)
    parser.add_argument("--every-s", type=float, default=60.0)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="endurance-") as name:
        folder = Path(name)
        with EmbeddedRedis(folder / "redis") as server:
            env = environment(server.url, "http://127.0.0.1:9/v1", folder / "data")
            with workers("up", folder, env, "") as staff:
                _row(list(HEAD))
                _row(["---"] * len(HEAD))
                for seed in range(TOLD):
                    _made(seed)
                load = Load(said.sessions, said.think_s, time.monotonic() + 60 * said.minutes)
                where = [each.pid for each in staff], folder / "data" / "archive.db"
                asyncio.run(_both(load, said.every_s, server, *where))


async def _both(load: Load, every_s: float, server: EmbeddedRedis, *where: Any) -> None:
    await asyncio.gather(load.run(server.url), _watch(load, every_s, server, *where))


if __name__ == "__main__":
    main()
