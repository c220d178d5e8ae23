"""How long the keys of a session live, and how long it says that it has waited."""

from __future__ import annotations

import time

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import ContextClient, Policy
from turnmill.contract.keys import registry_keys
from turnmill.contract.names import Namespace

# --- Every key of a session has a lifetime; a push renews it; forgetting leaves nothing.


LONG = {"role": "user", "content": "word " * 60}
MINUTE_MS = 60_000


def lifetimes(redis_client: redis.Redis, worker: Worker, session: str) -> dict[str, int]:
    """Milliseconds each key of the session that exists has left; -1 is for ever."""
    keys = {key: int(redis_client.pttl(key)) for key in worker.keys(session).owned}
    return {key: left for key, left in keys.items() if left != -2}


def test_every_key_of_a_compacted_session_has_a_lifetime(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)

    outcome = worker.work("s")

    left = lifetimes(redis_client, worker, "s")
    assert outcome == "committed"
    assert len(left) == 10
    assert all(0 < each <= MINUTE_MS for each in left.values())


def test_a_push_renews_the_lifetime_of_every_key(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.open("s", Policy(max_tokens=512, ttl_s=60))
    client.push_many([("s", LONG)] * 12)
    worker.work("s")
    soon = int(redis_client.time()[0]) * 1000 + 20_000
    redis_client.hset(worker.keys("s").meta, "expires_at", soon)
    for key in worker.keys("s").owned:
        redis_client.pexpireat(key, soon)

    client.push("s", LONG)

    assert all(left > 55_000 for left in lifetimes(redis_client, worker, "s").values())


def test_a_forgotten_session_leaves_no_key(
    either: Surface, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    either.push("s", LONG)

    forgotten = either.forget("s")

    assert forgotten
    assert forgotten.keys_left == 0
    # What is left says that the archive must forget it, too; the shard's hint ends in a second.
    registered = registry_keys(Namespace(namespace)).registered.encode()
    passing = {worker.keys("s").hinted.encode(), registered}
    left = set(redis_client.keys(f"*{namespace}*")) - passing
    assert left == {worker.keys("s").forgotten.encode()}
    assert redis_client.exists(registered), "workers end it when they see that nothing is left"


# --- What Redis wrote is compared with Redis' time, however wrong the clock here is.


@pytest.fixture(params=[-3600.0, 3600.0], ids=["behind", "ahead"])
def _wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this process, and so of its client and worker, is an hour off."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + request.param)


@pytest.mark.usefixtures("_wrong_clock")
def test_a_session_says_how_long_it_has_waited(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push_many([("s", LONG)] * 12)
    waiting = either.info("s")
    worker.pipeline.estimate(worker.ref("s"))
    due = either.info("s")
    for _ in range(5):
        worker.pipeline.failed(worker.ref("s"), "KeyError")
    parked = either.info("s")

    assert waiting.pending_for_s == pytest.approx(0, abs=30)
    assert due.due_in_s == pytest.approx(0, abs=30)
    assert parked.parked_for_s == pytest.approx(0, abs=30)
