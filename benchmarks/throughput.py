"""Turns per second through one worker process, against one Celery task per turn."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from benchmarks.per_turn_app import app as per_turn
from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import SessionId, namespace

SESSIONS, TURNS = 200, 100
POLICY = Policy(max_tokens=1_000_000)


def run(server: EmbeddedRedis) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        ours, tasks = _pipeline(server, Path(folder))
        theirs = _per_turn(server, Path(folder))
    total = SESSIONS * TURNS
    return [
        f"{SESSIONS} sessions x {TURNS} turns of 800 characters, one prefork worker, events on",
        "design                            turns/s   tasks",
        f"one hint per burst (turnmill)   {total / ours:>9,.0f}   {tasks:>5,}",
        f"one task per turn               {total / theirs:>9,.0f}   {total:>5,}",
        f"ratio                           {theirs / ours:>9.1f}",
    ]


def _message(turn: int) -> dict[str, str]:
    return {"role": "user", "content": (f"Turn {turn}: the quick brown fox jumps. " * 30)[:800]}


def _pipeline(server: EmbeddedRedis, folder: Path) -> tuple[float, int]:
    """Seconds from the first push to the last count, and tasks run."""
    worker = WorkerProcess(server.url, folder, pool="prefork", queues="estimate,compact")
    with worker, ContextClient(server.url, namespace="thru") as client:
        for n in range(SESSIONS):
            client.open(f"s{n}", POLICY)
        wait_until(lambda: _counted(server, 0), what="worker idle")
        start = time.perf_counter()
        for turn in range(TURNS):
            client.push_many((f"s{n}", _message(turn)) for n in range(SESSIONS))
        wait_until(lambda: _counted(server, TURNS), within_s=120, what="all counted")
        seconds = time.perf_counter() - start
        tasks = worker.output().count("turnmill.estimate")
    return seconds, tasks


def _counted(server: EmbeddedRedis, turns: int) -> bool:
    space = namespace("thru")
    keys = [session_keys(space, SessionId(f"s{n}")).meta for n in range(SESSIONS)]
    with redis.Redis.from_url(server.url) as plain, plain.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hget(key, "counted_seq")
        return all(int(found or 0) >= turns for found in pipe.execute())


def _per_turn(server: EmbeddedRedis, folder: Path) -> float:
    per_turn.conf.update(broker_url=server.url)
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.per_turn_app", "worker"]
    command += [
        "--pool",
        "prefork",
        "--concurrency",
        "1",
        "--queues",
        "per_turn",
        "--without-mingle",
    ]
    log = folder / "per-turn.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--without-gossip", "--loglevel", "INFO"],
            stdout=output,
            stderr=output,
            env={**os.environ, "TURNMILL_REDIS_URL": server.url},
        )
    try:
        wait_until(lambda: b" ready." in log.read_bytes(), within_s=40, what="worker ready")
        with redis.Redis.from_url(server.url) as plain:
            start = time.perf_counter()
            for turn in range(TURNS):
                for n in range(SESSIONS):
                    per_turn.send_task("per_turn.count", args=(f"s{n}", turn, _message(turn)))
            wait_until(
                lambda: int(plain.get("per-turn:done") or 0) >= SESSIONS * TURNS,
                within_s=300,
                what="all counted",
            )
            return time.perf_counter() - start
    finally:
        process.terminate()
        process.wait(timeout=30)
