"""Sweeping is one worker's job at a time, and costs the same however many sessions are idle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import NewServer
from turnmill import ContextClient, SilentWaker

pytestmark = pytest.mark.worker

LEASE_S = 0.18
"""The sweep's lease is a little shorter than its interval."""


def _calls(server: redis.Redis, *commands: str) -> int:
    raw: Any = server
    stats = raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in commands)


def _now_s(server: redis.Redis) -> float:
    raw: Any = server
    seconds, micros = raw.time()
    return float(seconds + micros / 1e6)


def test_of_three_workers_one_sweeps_at_a_time(
    new_server: NewServer, namespace: str, tmp_path: Path
) -> None:
    # A broker apart: of the state store's SMEMBERS, each is a sweep beginning.
    store, env = new_server(), {"TURNMILL_BROKER_URL": new_server().url}
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client,
        WorkerProcess(store.url, tmp_path, name="one", env=env) as one,
        WorkerProcess(store.url, tmp_path, name="two", env=env),
        WorkerProcess(store.url, tmp_path, name="three", env=env),
    ):
        client.push("s", {"role": "user", "content": "Somebody find me."})
        first, start = _calls(server, "smembers"), _now_s(server)
        wait_until(lambda: _calls(server, "smembers") >= first + 15)
        swept, took = _calls(server, "smembers") - first, _now_s(server) - start

        assert swept <= took / LEASE_S + 1
        assert client.info("s").counted_seq == 1
        one.kill()
        before = _calls(server, "smembers")
        wait_until(lambda: _calls(server, "smembers") > before, what="another worker sweeping")
