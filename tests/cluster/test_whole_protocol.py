"""What works on one Redis works on a Cluster: both clients, workers' answers, and commands."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cluster.servers import Cluster, slots_of
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat
from turnmill import AsyncContextClient, ContextClient, Policy, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.store_client import store_client
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.app import app
from turnmill_cli.redis_view import NamespacesView

pytestmark = pytest.mark.worker

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def worker(
    cluster: Cluster, broker: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker that sweeps, compacts, archives and answers."""
    folder = tmp_path_factory.mktemp("worker")
    env = {
        "TURNMILL_BROKER_URL": broker.url,
        "TURNMILL_ARCHIVE_URL": f"sqlite:///{folder}/archive.db",
    }
    with WorkerProcess(cluster.url, folder, pool="threads", concurrency=4, env=env) as running:
        yield running


Call = Callable[..., Any]


@pytest.fixture(params=[ContextClient, AsyncContextClient])
def call(
    request: pytest.FixtureRequest, cluster: Cluster, broker: EmbeddedRedis, namespace: str
) -> Iterator[Call]:
    """Calls a method of the client of either kind by its name."""
    loop = asyncio.new_event_loop()
    client = request.param(cluster.url, namespace=namespace, broker=broker.url)

    def run(method: str, /, *args: Any, **options: Any) -> Any:
        found = getattr(client, method)(*args, **options)
        return loop.run_until_complete(found) if inspect.isawaitable(found) else found

    yield run
    run("close")
    loop.close()


@pytest.mark.usefixtures("worker")
def test_every_call_of_a_client_is_answered(call: Call) -> None:
    names = [f"s{at}" for at in range(20)]
    call("set_policy", "small", SMALL)
    for name in names:
        call("open", name, "small")
    many = call("push_many", [(name, turn) for turn in chat(60) for name in names])
    picture = [{"type": "image_url", "image_url": {"url": PIXEL}}]
    call("push", "s0", {"role": "user", "content": picture})
    call("checkpoint", "s0", name="here")

    assert [p.seq for p in many] == [seq for seq in range(1, 61) for _ in names]
    wait_until(lambda: call("info", "s0").compactions, what="compacted")
    assert call("read", "s0").messages[-1]["content"][0]["image_url"]["url"] == PIXEL
    assert call("step", "s5", {"role": "user", "content": "now"}).messages[-1]["content"] == "now"
    assert sorted(call("sessions")) == sorted(names)
    assert call("summarize", "s1", timeout_s=20) is not None
    assert call("rollback", "s0", "here", timeout_s=20).version
    assert len(call("trajectory", "s2", timeout_s=20).turns) == 60
    assert call("remember", "The vault's number is 4711.", timeout_s=20)
    assert call("ground", "vault number", timeout_s=20).memories
    assert call("parked") == []
    assert call("clear", "s3") >= 0
    assert call("forget", "s4").keys_left == 0
    assert call("policies")["small"] == SMALL


@pytest.mark.usefixtures("worker")
def test_sessions_that_nobody_hints_are_swept_and_archived(
    cluster: Cluster, namespace: str
) -> None:
    with (
        ContextClient(cluster.url, namespace=namespace, broker="redis://127.0.0.1:1") as client,
        closing(store_client(cluster.url, 5)) as server,
    ):
        for name in ("one", "two", "three"):
            client.open(name, SMALL)
            client.push_many((name, turn) for turn in chat(120))

        for name in ("one", "two", "three"):
            wait_until(partial(_is_compacted, client, name), what="swept")
            keys = session_keys(Namespace(namespace), SessionId(name))
            wait_until(partial(_is_empty, server, keys.covered), what="archived")


def test_a_slot_that_never_stops_moving_ends_in_an_error_in_time_and_nothing_is_half_done(
    cluster: Cluster, broker: EmbeddedRedis, namespace: str
) -> None:
    key = session_keys(Namespace(namespace), SessionId("held")).meta
    [slot] = slots_of([key])
    with ContextClient(cluster.url, namespace=namespace, broker=broker.url, timeout_s=1) as client:
        client.push("held", {"role": "user", "content": "before"}, turn_id="1")
        source, target = cluster.begin_move(slot)
        cluster.move_keys(slot, source, target, most=2)
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                client.push("held", {"role": "user", "content": "meanwhile"}, turn_id="2")
            took_s = time.monotonic() - began
            assert [m["content"] for m in client.read("held").messages] == ["before"]
        finally:
            while cluster.move_keys(slot, source, target, most=100):
                pass
            cluster.end_move(slot, target)

        assert took_s < 1.5
        pushed = client.push("held", {"role": "user", "content": "meanwhile"}, turn_id="2")
        assert (pushed.seq, pushed.duplicate) == (2, False)
        assert client.info("held").last_seq == 2


@pytest.mark.usefixtures("worker")
def test_commands_look_at_all_masters(
    cluster: Cluster, broker: EmbeddedRedis, namespace: str
) -> None:
    with ContextClient(cluster.url, namespace=namespace, broker=broker.url) as client:
        for at in range(12):
            client.open(f"s{at}", Policy())
            client.push(f"s{at}", {"role": "user", "content": "hello"})
    where = ["--redis-url", cluster.url, "--broker-url", broker.url, "--namespace", namespace]

    checks = json.loads(_printed(["doctor", "--json", *where]))["checks"]
    listed = json.loads(_printed(["sessions", "--json", *where]))

    versions = [check["found"] for check in checks if check["name"] == "redis"]
    assert sorted(each.split(": version")[0] for each in versions) == sorted(
        node.address for node in cluster.nodes
    )
    assert {c["status"] for c in checks if c["name"] in {"scripts", "broker", "workers"}} == {"ok"}
    assert len(listed) == 12


def test_commits_are_heard_whichever_master_they_are_made_on(
    cluster: Cluster, broker: EmbeddedRedis, namespace: str, worker: WorkerProcess
) -> None:
    assert worker.pid
    names = [f"s{at}" for at in range(6)]
    with (
        ContextClient(cluster.url, namespace=namespace, broker=broker.url) as client,
        closing(store_client(cluster.url, 5)) as server,
        closing(NamespacesView(server).commits()) as announced,
    ):
        heard: set[str] = set()
        list(announced.heard())
        for name in names:
            client.open(name, SMALL)
        client.push_many((name, turn) for turn in chat(80) for name in names)

        def all_are_heard() -> bool:
            heard.update(record["session"] for record in announced.heard())
            return heard >= set(names)

        wait_until(all_are_heard, what="commits heard")


def _is_compacted(client: ContextClient, session: str) -> bool:
    return client.info(session).compactions > 0


def _is_empty(server: Any, stream: str) -> bool:
    return not server.xlen(stream)


def _printed(args: list[str]) -> str:
    return CliRunner().invoke(app, args).stdout
