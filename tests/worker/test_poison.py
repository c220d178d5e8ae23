"""What nobody can read costs its session, or its tenant; never a worker or anybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    SMALL,
    Events,
    chat,
    grown,
    in_one_shard,
    keys_of,
    push_all,
    send,
    until_settled,
)
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import ESTIMATE
from turnmill.contract.keys import (
    SessionKeys,
)

pytestmark = pytest.mark.worker

MARK = "moonflower-4711"
"""What the damaged values say, and no log or event may."""


def _damage_log(server: redis.Redis, keys: SessionKeys, body: str) -> None:
    server.delete(keys.log)
    server.hset(keys.meta, "last_seq", "1")
    server.xadd(keys.log, {"messages": body, "bound": "9", "turn_id": "t", "fields": ""}, id="1-0")


def _cut_off_turn(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, f'[{{"role":"user","content":"{MARK}')


def _turn_of_strings(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, f'["{MARK}"]')


def _turn_without_role(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, f'[{{"content":"{MARK}","tool_calls":"{MARK}"}}]')


def _damaged_context(server: redis.Redis, keys: SessionKeys) -> None:
    server.set(keys.context, f'{{"summary":["{MARK}"],"version":"{MARK}"}}')


def _damaged_policy(server: redis.Redis, keys: SessionKeys) -> None:
    server.hset(keys.meta, "policy", f'{{"max_tokens":"{MARK}"}}')


DAMAGE: dict[str, Callable[[redis.Redis, SessionKeys], None]] = {
    "cut-off-turn": _cut_off_turn,
    "turn-of-strings": _turn_of_strings,
    "turn-without-role": _turn_without_role,
    "damaged-context": _damaged_context,
    "damaged-policy": _damaged_policy,
}


def _failed(worker: WorkerProcess, session: str) -> int:
    lines = worker.output().splitlines()
    return sum("event='failed'" in line and f"session='{session}'" in line for line in lines)


@pytest.fixture(scope="module")
def poisoned(store: EmbeddedRedis, worker: WorkerProcess) -> Iterator[Events]:
    """One session per kind of damage, each met by a job; events from before that on."""
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace="poisoned", broker=SilentWaker()) as client,
        Events(store.url) as events,
    ):
        for name, damage in DAMAGE.items():
            client.open(name, SMALL)
            push_all(client, name, chat(60))
            damage(server, keys_of(client, name))
        for name in DAMAGE:
            wait_until(lambda: _failed(worker, name), what=f"a job failed by a {name}")  # noqa: B023
        yield events


@pytest.mark.usefixtures("poisoned")
def test_other_sessions_are_compacted_and_the_damaged_ones_seldom_retried(
    silent: ContextClient, worker: WorkerProcess
) -> None:
    # Each of these waits for a sweep, and every sweep could hint the damaged ones again.
    for n in range(8):
        grown(silent, f"healthy-{n}", 60)

    assert {name: _failed(worker, name) for name in DAMAGE if _failed(worker, name) > 4} == {}


def test_a_damaged_session_keeps_no_other_of_its_shard_from_being_counted(
    store: EmbeddedRedis, worker: WorkerProcess, silent: ContextClient
) -> None:
    first, damaged, *others = in_one_shard("neighbour", 4)
    # Nobody hints them: only a job for the first one can count the others so soon.
    with redis.Redis.from_url(store.url) as server:
        silent.open(damaged)
        _damaged_policy(server, keys_of(silent, damaged))  # before a sweep can count it
        silent.push_many([(name, chat(1)[0]) for name in (first, damaged, *others)])

        send(store.url, ESTIMATE, silent.namespace, first)

        wait_until(lambda: _failed(worker, damaged), what="the damaged one met")
        metas = [keys_of(silent, name).meta for name in (first, damaged, *others)]
        wait_until(lambda: server.hget(metas[-1], "counted_seq") == b"1", what="the last counted")
        assert [server.hget(meta, "counted_seq") for meta in metas] == [b"1", None, b"1", b"1"]


def test_failures_are_reported_without_content(poisoned: Events, worker: WorkerProcess) -> None:
    wait_until(lambda: len(poisoned.failures()) >= len(DAMAGE))

    assert MARK not in str(poisoned.seen)
    assert MARK not in worker.output()


def test_a_poisoned_session_is_parked_reported_and_retried(
    client: ContextClient, server: redis.Redis, worker: WorkerProcess, store: EmbeddedRedis
) -> None:
    with Events(store.url) as events:
        client.open("s", SMALL.model_copy(update={"park_after": 2}))
        server.set(keys_of(client, "s").context, f'{{"summary": ["{MARK}"]}}')
        push_all(client, "s", chat(60))
        wait_until(client.parked, what="parked")
        [found] = client.parked()

        push_all(client, "s", chat(2))
        wait_until(lambda: client.info("s").counted_seq == 62)
        server.delete(keys_of(client, "s").context)
        wait_until(lambda: len(events.failures()) == 2, what="both failures told")
        client.retry("s")
        until_settled(client, "s", turns=62)

    assert (found.session, found.failures, found.error) == ("s", 2, "CorruptContext")
    assert "event='parked'" in worker.output()
    assert client.info("s").version > 0
    assert client.info("s").failures == 0
    assert MARK not in worker.output()
