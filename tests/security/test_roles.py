"""Everything that agents, workers and operators do works for the users of deploy/acl."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.security.roles import add_user, commands_of, line_of, url_of
from tests.worker.harness import SMALL, chat
from turnmill import AsyncContextClient, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

pytestmark = pytest.mark.worker

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
PICTURE = {
    "role": "user",
    "content": [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"},
        }
    ],
}


@pytest.fixture(scope="module")
def broker(
    guarded: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis]:
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedRedis(folder, durable=False, binary=guarded._binary) as server:
        with redis.Redis.from_url(server.url) as admin:
            add_user(admin, line_of("broker-agents"))
            add_user(admin, line_of("broker-workers"))
        yield server


@pytest.fixture(scope="module", autouse=True)
def worker(
    guarded: EmbeddedRedis, broker: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """A worker that is a worker for both servers."""
    folder = tmp_path_factory.mktemp("worker")
    env = {
        "TURNMILL_BROKER_URL": url_of(broker.port, "workers"),
        "TURNMILL_ARCHIVE_URL": "",
        "TURNMILL_DATA_DIR": str(folder / "data"),
    }
    url = url_of(guarded.port, "workers")
    with WorkerProcess(url, folder, pool="threads", concurrency=4, env=env) as running:
        yield running


def _agent(guarded: EmbeddedRedis, broker: EmbeddedRedis) -> dict[str, Any]:
    return {
        "redis": url_of(guarded.port, "agents-shop"),
        "namespace": "shop",
        "broker": url_of(broker.port, "agents"),
    }


def run(*words: str) -> tuple[int, str]:
    """A command's exit code, and what it printed."""
    command = [sys.executable, "-m", "turnmill_cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


class _Called:
    """A client that notes which of its methods were called."""

    def __init__(self, client: Any) -> None:
        self.client, self.names = client, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self.client, name)

    def missing(self) -> set[str]:
        public = {name for name in dir(type(self.client)) if not name.startswith("_")}
        return public - self.names - {"close", "namespace"}


async def _go_back(call: Callable[..., Awaitable[Any]], session: str) -> None:
    """By a turn, to another session, and to before a turn."""
    last = await call("push", session, {"role": "user", "content": "Never mind."})
    await call("take_back", session, last.seq, timeout_s=30)
    await call("fork", session, f"{session}-fork", timeout_s=30)
    await call("rewind", session, at=last.seq - 1, timeout_s=30)


async def _look_back(call: Callable[..., Awaitable[Any]], session: str) -> None:
    """At all turns, at one of them, and at what is remembered."""
    await call("trajectory", session, timeout_s=30)
    await call("turn", session, 3, timeout_s=30)
    await call("remember", "The kayak of Zebedee is vermilion.", timeout_s=30)
    await call("ground", "Which colour has the kayak?", timeout_s=30)


async def _everything(client: Any, session: str) -> None:
    """Call every public method there is, awaited where it must be."""

    async def call(method: str, /, *args: Any, **options: Any) -> Any:
        found = getattr(client, method)(*args, **options)
        return await found if inspect.isawaitable(found) else found

    await call("set_policy", "small", SMALL)
    await call("policies")
    await call("open", session, "small", system_prompt="Be brief.")
    await call("push", session, PICTURE)
    await call("push_many", [(session, message) for message in chat(60)])
    await call("step", session, {"role": "user", "content": "And one more."})
    await call("step_many", session, [{"role": "assistant", "content": "Yes."}])
    for _ in range(300):
        info = await call("info", session)
        if info.compactions and info.counted_seq == info.last_seq:
            break
        await asyncio.sleep(0.1)
    assert info.compactions
    await call("read", session)
    await call("rules", session)
    await call("sessions")
    await call("sessions_page", limit=1)
    assert await call("usage", "session,model")
    await call("checkpoint", session, "before", name="mine")
    await call("checkpoints", session)
    await call("summarize", session, timeout_s=30)
    await call("rollback", session, "mine", timeout_s=30)
    await _look_back(call, session)
    await call("erase", session, matching="vermilion", timeout_s=30)
    await call("erase", session, turns=[2], timeout_s=30)
    await _go_back(call, session)
    await call("retry", session)
    await call("parked")
    await call("clear", session)
    await call("manager", f"{session}-managed", Policy(max_tokens=2_000))
    await call("forget", session)
    assert client.hints.dropped == 0


def _denied(server: EmbeddedRedis) -> set[tuple[str, str]]:
    """What was refused to whom, but for what redis-py says of itself, and does not need."""
    with redis.Redis.from_url(server.url, decode_responses=True) as admin:
        raw: Any = admin
        entries = raw.acl_log()
        raw.acl_log_reset()
    found = {(entry["username"], str(entry["object"]).lower()) for entry in entries}
    return {(user, what) for user, what in found if not what.startswith("client")}


async def test_every_method_works_for_an_agent_of_a_namespace(
    guarded: EmbeddedRedis, broker: EmbeddedRedis, worker: WorkerProcess
) -> None:
    _denied(guarded)
    _denied(broker)
    with ContextClient(**_agent(guarded, broker)) as client:
        recorded = _Called(client)
        await asyncio.to_thread(lambda: asyncio.run(_everything(recorded, "sync")))
        assert recorded.missing() == set()
    async with AsyncContextClient(**_agent(guarded, broker)) as client:
        recorded = _Called(client)
        await _everything(recorded, "async")
        assert recorded.missing() == set()

    assert _denied(guarded) == set()
    assert _denied(broker) == set()
    assert "event='failed'" not in worker.output()
    assert "sweep failed" not in worker.output()


def test_an_agent_can_only_add_to_the_queues(broker: EmbeddedRedis) -> None:
    with redis.Redis.from_url(url_of(broker.port, "agents")) as agent:
        for words in (
            ("LRANGE", "estimate", "0", "-1"), ("DEL", "estimate"), ("LTRIM", "estimate", "1", "0"),
            ("PUBLISH", "/0.celery.pidbox", "{}"), ("SADD", "_kombu.binding.estimate", "x"),
            ("HGETALL", "unacked"), ("LPUSH", "unacked", "x"), ("BRPOP", "estimate", "1"),
        ):  # fmt: skip
            with pytest.raises(redis.exceptions.NoPermissionError):
                agent.execute_command(*words)
    assert commands_of("broker-agents") == {"lpush", "ping", "hello", "select"}


def test_an_operator_looks_and_is_told_what_it_may_not_do(
    guarded: EmbeddedRedis, broker: EmbeddedRedis
) -> None:
    with ContextClient(**_agent(guarded, broker)) as client:
        client.open("watched", SMALL)
        client.push_many(("watched", message) for message in chat(60))
        wait_until(lambda: client.info("watched").compactions, what="a compaction")
    options = ["--redis-url", url_of(guarded.port, "operator"), "--namespace", "shop"]
    elsewhere = ["--broker-url", url_of(broker.port, "workers")]

    for words in (["sessions"], ["usage"], ["info", "watched"], ["history", "watched"], ["parked"]):
        code, printed = run(*words, *options)
        assert code == 0, printed
    keys = session_keys(Namespace("shop"), SessionId("put-off"))
    with redis.Redis.from_url(guarded.url) as admin:
        admin.hset(keys.meta, mapping={"tail_tokens": 7_000})
        admin.zadd(keys.index, {"put-off": 1})
        admin.acl_log_reset()
        code, printed = run("top", "--once", "--json", *options, *elsewhere)
        refused = {entry["object"] for entry in admin.acl_log()}
    assert (code, json.loads(printed)["sessions"]["over_soft"]) == (0, 1), printed
    assert "set" not in refused
    code, printed = run("namespaces", *options)
    assert (code, bool(re.search(r"shop \d 0", printed))) == (0, True), printed
    _, doctor = run("doctor", *options, *elsewhere, "--archive-url", "none")
    assert "Redis accepts all" in doctor
    assert "does not permit" not in doctor
    written = (["forget", "watched", "--yes"], ["retry", "watched"])
    for words in written:
        code, printed = run(*words, *options)
        assert code != 0
        assert "does not permit" in printed
