"""All of Celery's pools work, and so does a client that was made before a fork."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, Events, chat, push_all, settled, stored
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 4), ("prefork", 2)])
def test_every_pool_keeps_many_sessions_small(
    pool: str,
    concurrency: int,
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    sessions = {f"s{n}": chat(100, topic=f"parcel of s{n}") for n in range(12)}
    worker = new_worker("pool", pool=pool, concurrency=concurrency)

    with Events(store.url) as events:
        for session, turns in sessions.items():
            client.open(session, SMALL)
            push_all(client, session, turns)

        for session, turns in sessions.items():
            wait_until(lambda: settled(client, session, turns=100))  # noqa: B023
            stored(server, client, session).assert_conserved(turns)
            assert client.info(session).version > 0
        assert events.failures() == []
    assert "Traceback" not in worker.output()


FORK = """
import os, sys, json, time
from turnmill import ContextClient

def push(client, who):
    before = client.hints.published
    seqs = [client.push(who, {"role": "user", "content": f"{n}"}).seq for n in range(20)]
    deadline = time.monotonic() + 30
    while client.hints.published == before and time.monotonic() < deadline:
        time.sleep(0.01)
    return {"seqs": seqs, "hinted": client.hints.published > before,
            "read": len(client.read(who).messages)}

client = ContextClient(sys.argv[1], namespace=sys.argv[2])
push(client, "before")
child = os.fork()
report = push(client, "child" if child == 0 else "parent")
if child:
    os.waitpid(child, 0)
print(json.dumps(["child" if child == 0 else "parent", report]), flush=True)
client.close()
os._exit(0)
"""


def test_a_client_made_before_a_fork_works_in_parent_and_child(
    store: EmbeddedRedis, namespace: str, server: redis.Redis
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, store.url, namespace],
        capture_output=True,
        check=True,
        timeout=90,
    )

    reports = dict(json.loads(line) for line in done.stdout.splitlines())
    expected = {"seqs": list(range(1, 21)), "hinted": True, "read": 20}
    assert reports == {"child": expected, "parent": expected}
    assert server.llen("estimate") >= 3


FORK_MEANWHILE = """
import os, sys, time
from turnmill import ContextClient

with ContextClient(sys.argv[1], namespace=sys.argv[2]) as client:
    client.push("before", {"role": "user", "content": "Celery is imported for this one."})
    while "celery" not in sys.modules:
        time.sleep(0.0001)
    child = os.fork()
    client.push(f"after-{os.getpid()}", {"role": "user", "content": "And used for this."})
    deadline = time.monotonic() + 30
    while not client.hints.published and time.monotonic() < deadline:
        time.sleep(0.01)
    status = os.waitpid(child, 0)[1] if child else 0
    os._exit(0 if client.hints.published and not status else 1)
"""


def test_a_fork_while_celery_is_imported_leaves_both_able_to_hint(
    store: EmbeddedRedis, namespace: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_MEANWHILE, store.url, namespace],
        capture_output=True,
        check=False,
        timeout=90,
    )

    assert (done.returncode, done.stderr) == (0, b"")
