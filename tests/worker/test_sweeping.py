"""Sweeping is one worker's job at a time, and costs the same however many sessions are idle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import NewServer, chat, push_all
from turnmill import ContextClient, Policy, SilentWaker

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


def test_a_session_that_falls_quiet_is_compacted_and_one_kept_warm_is_not(
    new_server: NewServer, namespace: str, tmp_path: Path
) -> None:
    store, said = new_server(), chat(90)
    policy = Policy(max_tokens=4_000, soft_ratio=0.95, idle_ratio=0.65, compact_when_idle_s=2.5)
    with (
        ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client,
        WorkerProcess(store.url, tmp_path, name="one"),
    ):
        for name in ("quiet", "warm"):
            client.open(name, policy)
            push_all(client, name, said)
        wait_until(lambda: client.info("quiet").counted_seq == len(said))
        assert client.info("quiet").limits.soft > client.info("quiet").usage.total

        def is_done() -> bool:
            client.push("warm", {"role": "user", "content": "."})
            return client.info("quiet").version == 1

        wait_until(is_done)
        info = client.info("quiet")
        assert info.usage.total <= info.limits.target
        assert client.info("warm").version == 0
