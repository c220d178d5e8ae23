"""A session with a value nobody can read costs itself, now and then; never the worker or others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, Events, chat, keys_of, push_all, settled
from turnmill import ContextClient
from turnmill.contract.keys import SessionKeys
from turnmill.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

SECRET = "moonflower-4711"
CUT_OFF = f'[{{"role":"user","content":"{SECRET}'


def _damage_log(server: redis.Redis, keys: SessionKeys, body: str) -> None:
    server.delete(keys.log)
    server.hset(keys.meta, "last_seq", "1")
    fields = {"messages": body, "bound": "9", "turn_id": "t", "fields": ""}
    server.xadd(keys.log, dict(fields), id="1-0")


def _with_a_cut_off_turn(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, CUT_OFF)


def _with_a_turn_that_is_no_list(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, f'["{SECRET}"]')


def _with_a_message_without_a_role(server: redis.Redis, keys: SessionKeys) -> None:
    _damage_log(server, keys, f'[{{"content":"{SECRET}","tool_calls":"{SECRET}"}}]')


def _with_a_damaged_context(server: redis.Redis, keys: SessionKeys) -> None:
    server.set(keys.context, f'{{"summary":["{SECRET}"],"version":"{SECRET}"}}')


def _with_a_damaged_policy(server: redis.Redis, keys: SessionKeys) -> None:
    server.hset(keys.meta, "policy", f'{{"max_tokens":"{SECRET}"}}')


DAMAGE: list[Callable[[redis.Redis, SessionKeys], None]] = [
    _with_a_cut_off_turn,
    _with_a_turn_that_is_no_list,
    _with_a_message_without_a_role,
    _with_a_damaged_context,
    _with_a_damaged_policy,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__[1:])
def test_a_session(
    damage: Callable[[redis.Redis, SessionKeys], None],
    silent: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    worker: WorkerProcess,
) -> None:
    name = f"poison-{silent.namespace}"
    silent.open(name, SMALL)
    push_all(silent, name, chat(60))
    damage(server, keys_of(silent, name))

    with Events(store.url) as events:
        wait_until(lambda: f"session='{name}' error=" in worker.output(), what="a failed job")
        # Each healthy session waits for a sweep, so the damaged one could have been hinted often.
        for n in range(8):
            silent.open(f"healthy-{n}", SMALL)
            push_all(silent, f"healthy-{n}", chat(60))
            wait_until(lambda: settled(silent, f"healthy-{n}", turns=60))  # noqa: B023

        failed = worker.output().count(f"session='{name}' error=")
        assert failed <= 4
        assert SECRET not in worker.output()
        assert SECRET not in str(events.seen)
    silent.forget(name)
    push_all(silent, name, chat(60))
    wait_until(lambda: silent.info(name).counted_seq == 60, what="the name usable again")
