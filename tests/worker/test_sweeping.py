"""Sweeping is one worker's job at a time, and costs the same however many sessions are idle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, Events, chat, keys_of, send
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import SWEEP
from turnmill.contract.keys import NAMESPACES, SHARDS, shard_keys
from turnmill.contract.names import Namespace

pytestmark = pytest.mark.worker

INTERVAL_S = 0.2
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
    new_server: Callable[..., EmbeddedRedis], namespace: str, tmp_path: Path
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


def test_a_sweep_costs_less_than_a_command_per_idle_session(
    new_server: Callable[..., EmbeddedRedis], namespace: str, tmp_path: Path
) -> None:
    store, env, idle = new_server(), {"TURNMILL_BROKER_URL": new_server().url}, 1_200
    commands = ("smembers", "zrangebyscore", "zrandmember", "exists", "zrem", "eval", "evalsha")
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client,
        WorkerProcess(store.url, tmp_path, env=env),
    ):
        silence = {"role": "user", "content": "And then I fell silent."}
        client.push_many((f"s{n}", silence) for n in range(idle))
        wait_until(lambda: _waiting(server, namespace) == 0, within_s=60, what="all counted")

        swept, sent = _calls(server, "smembers"), _calls(server, *commands)
        # Every sixteenth sweep also looks for expired sessions: one of those is among these.
        wait_until(lambda: _calls(server, "smembers") >= swept + 17)
        per_sweep = (_calls(server, *commands) - sent) / (_calls(server, "smembers") - swept)

    assert per_sweep <= SHARDS * 12 < idle


def _waiting(server: redis.Redis, namespace: str) -> int:
    """Sessions in the namespace's backlogs."""
    raw: Any = server
    with raw.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            pipe.zcard(shard_keys(Namespace(namespace), shard).backlog)
        return sum(pipe.execute())


@pytest.mark.usefixtures("worker")
def test_an_expired_session_leaves_the_list_of_sessions(
    client: ContextClient, server: redis.Redis
) -> None:
    client.push("s", {"role": "user", "content": "I shall be gone."})
    wait_until(lambda: client.info("s").counted_seq == 1)

    for key in keys_of(client, "s").owned:
        server.pexpire(key, 1)

    wait_until(lambda: client.sessions() == [])


@pytest.mark.usefixtures("worker")
def test_a_namespace_is_swept_from_its_first_push_on(
    silent: ContextClient, server: redis.Redis
) -> None:
    silent.push("s", {"role": "user", "content": "First words."})

    wait_until(lambda: silent.info("s").counted_seq == 1)
    assert server.sismember(NAMESPACES, silent.namespace)


@pytest.mark.usefixtures("worker")
def test_a_sweep_can_be_asked_for_by_name(store: EmbeddedRedis) -> None:
    with Events(store.url) as events:
        send(store.url, SWEEP)

        wait_until(lambda: "swept" in events.outcomes())
    assert events.results()[-1].keys() == {"outcome", "hints"}


@pytest.mark.parametrize(
    ("queues", "unread"), [("compact", "estimate"), ("estimate,compact", "summarize")]
)
def test_a_queue_nobody_reads_does_not_grow_without_end(
    queues: str,
    unread: str,
    new_server: Callable[..., EmbeddedRedis],
    namespace: str,
    tmp_path: Path,
) -> None:
    store = new_server()
    sessions = [f"s{n}" for n in range(120)]
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as client,
        WorkerProcess(store.url, tmp_path, queues=queues),
    ):
        for session in sessions:
            client.open(session, ROLLING)
        client.push_many((session, turn) for session in sessions for turn in chat(50))
        wait_until(lambda: server.llen(unread) >= len(sessions), what="every session hinted")

        start = _now_s(server)
        wait_until(lambda: _now_s(server) > start + 4, what="four seconds of sweeping")

        # Sweeping five times a second could have sent each session twenty hints by now.
        assert server.llen(unread) <= 7 * len(sessions)
