"""`turnmill serve` against the client below it: steps a second of one core's time, and p50.

Both do the same steps in turn, so that they drift together. Processor time is counted, of the
server's process and of this one, because a machine for tests has no core to give away.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import psutil

from turnmill import AsyncContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port

AGENTS, STEPS, ROUNDS, PAIRS = 32, 10, 6, 600
MESSAGE = {"role": "user", "content": ("The quick brown fox jumps. " * 30)[:800]}
BODY = json.dumps({"messages": [MESSAGE]}).encode()
Step = Callable[[str], Awaitable[object]]


class Wire:
    """A connection of HTTP that costs next to nothing."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def step(self, session: str) -> object:
        if not hasattr(self, "_reader"):
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST /v1/sessions/{session}/step HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        self._writer.write(head.encode() + BODY)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        return await self._reader.readexactly(int(length))


@contextmanager
def server(url: str) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    words = ["serve", "--no-auth", "--port", str(port), "--redis-url", url]
    with subprocess.Popen([sys.executable, "-m", "turnmill_cli", *words]) as process:
        try:
            while True:
                try:
                    asyncio.run(Wire(port).step("warm"))
                    break
                except OSError:
                    time.sleep(0.1)
            yield port, psutil.Process(process.pid)
        finally:
            process.terminate()


async def crowd(steps: Sequence[Step], name: str) -> None:
    """Agents at once, each on its own session."""

    async def agent(at: int) -> None:
        for _ in range(STEPS):
            await steps[at](f"{name}-{at}")

    await asyncio.gather(*map(agent, range(AGENTS)))


async def measured(url: str, port: int, process: psutil.Process) -> list[str]:
    async with AsyncContextClient(url, namespace="bare") as client:

        async def bare(session: str) -> object:
            return await client.step(session, MESSAGE)

        wires = [Wire(port).step for _ in range(AGENTS)]
        rates: list[tuple[float, float]] = []
        for turn in range(ROUNDS + 1):
            before = time.process_time()
            await crowd([bare] * AGENTS, f"b{turn}")
            ours = time.process_time() - before
            before = sum(process.cpu_times()[:2])
            await crowd(wires, f"s{turn}")
            theirs = sum(process.cpu_times()[:2]) - before
            rates.append((AGENTS * STEPS / ours, AGENTS * STEPS / theirs))
        direct, over = await latencies(bare, wires[0])
    client_rate, serve_rate = (statistics.median(each) for each in zip(*rates[1:], strict=True))
    return [
        "                 steps/s of a core   p50 of a step",
        f"client           {client_rate:>17,.0f}   {direct * 1e3:>10.2f} ms",
        f"serve            {serve_rate:>17,.0f}   {over * 1e3:>10.2f} ms",
        f"serve / client   {serve_rate / client_rate:>17.0%}   {(over - direct) * 1e3:>+10.2f} ms",
    ]


async def latencies(bare: Step, wire: Step) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(PAIRS):
        for step, found in zip((bare, wire), times, strict=True):
            began = time.perf_counter()
            await step(f"p{at // 10}")
            found.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def run(redis: EmbeddedRedis) -> list[str]:
    with server(redis.url) as (port, process):
        return asyncio.run(measured(redis.url, port, process))
