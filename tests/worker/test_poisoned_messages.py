"""A message of the broker that is no hint is put aside, and the worker takes the next one."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import NewWorker, chat
from turnmill import ContextClient
from turnmill.contract.jobs import ESTIMATE
from turnmill.contract.keys import QUARANTINED, QUARANTINED_COUNT, QUARANTINED_KEPT

pytestmark = pytest.mark.worker

MARK = "moonflower-4711"
FLOOD = 8 * QUARANTINED_KEPT
"""What every bad message says, and no log may."""

CALL = [[MARK, MARK], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]


def _packed(call: object) -> str:
    return base64.b64encode(json.dumps(call).encode()).decode()


def _message(**changes: object) -> dict[str, Any]:
    """A message as kombu writes it, but for these changes."""
    headers: dict[str, object] = {
        "lang": "py",
        "task": ESTIMATE,
        "id": uuid.uuid4().hex,
        "timelimit": [None, None],
        "argsrepr": MARK,
    }
    properties: dict[str, object] = {
        "delivery_tag": uuid.uuid4().hex,
        "delivery_info": {"exchange": "", "routing_key": "estimate"},
        "body_encoding": "base64",
        "priority": 0,
    }
    whole: dict[str, Any] = {
        "body": _packed(CALL),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    for name, value in changes.items():
        at = headers if name in headers or name in NEW_HEADERS else whole
        at = properties if name in {*properties, "delivery_info"} else at
        at[name.replace("content_", "content-")] = value
    return whole


NEW_HEADERS = ("eta", "expires", "retries", "root_id", "compression", "stamps")


def _without(name: str) -> dict[str, Any]:
    message = _message()
    del message[name]
    return message


POISON: dict[str, object] = {
    "not-utf-8": b"\xff\xfe" + MARK.encode(),
    "not-json": f'{{"body": "{MARK}"',
    "nested": "[" * 200_000,
    "a-list": [MARK],
    "a-number": 42,
    "no-properties": _without("properties"),
    "no-headers": _without("headers"),
    "properties-of-a-wrong-type": _message() | {"properties": [MARK]},
    "headers-of-a-wrong-type": _message() | {"headers": [MARK]},
    "delivery-info-of-a-wrong-type": _message(delivery_info=MARK),
    "delivery-tag-of-a-wrong-type": _message(delivery_tag=[MARK], task=MARK),
    "body-not-base64": _message(body=f"{MARK}!"),
    "body-of-a-wrong-type": _message(body=[MARK]),
    "body-a-number": _message(body=_packed(7)),
    "body-of-two": _message(body=_packed([[MARK], {}])),
    "body-nested": _message(body=base64.b64encode(b"[" * 60_000).decode()),
    "arguments-of-a-wrong-type": _message(body=_packed([MARK, {}, {}])),
    "more-to-do-afterwards": _message(body=_packed([[], {}, {"chain": [{"task": MARK}]}])),
    "giant": _message(body=_packed([["x" * 20_000_000], {}, {}])),
    "unknown-body-encoding": _message(body_encoding=MARK),
    "pickled": _message(content_type="application/x-python-serialize"),
    "unknown-content-type": _message(content_type=f"text/{MARK}"),
    "unknown-content-encoding": _message(content_encoding=MARK),
    "content-type-of-a-wrong-type": _message(content_type={MARK: 1}),
    "compressed": _message(compression="application/x-gzip"),
    "unknown-task": _message(task=f"turnmill.{MARK}"),
    "task-of-a-wrong-type": _message(task=[MARK]),
    "id-of-a-wrong-type": _message(id={MARK: 1}),
    "timelimit-of-strings": _message(timelimit=[MARK, MARK]),
    "timelimit-a-string": _message(timelimit=MARK),
    "eta-in-a-thousand-years": _message(eta="3025-01-01T00:00:00+00:00"),
    "eta-of-a-wrong-type": _message(eta=[MARK]),
    "expires-of-a-wrong-type": _message(expires={MARK: 1}),
    "retries-of-a-wrong-type": _message(retries=MARK),
    "root-of-a-wrong-type": _message(root_id=[MARK]),
}


def _raw(poison: object) -> bytes | str:
    return poison if isinstance(poison, bytes | str) else json.dumps(poison)


@pytest.fixture(params=["prefork"])
def reader(
    request: pytest.FixtureRequest, server: redis.Redis, new_worker: NewWorker
) -> WorkerProcess:
    """A worker of each pool whose sweep repairs nothing while a test runs."""
    server.flushall()
    env = {"TURNMILL_SWEEP_INTERVAL_S": "600"}
    return new_worker(request.param, pool=request.param, concurrency=2, env=env)


def _counted(client: ContextClient) -> bool:
    return client.info("healthy").counted_seq == 5


def test_a_worker_survives_every_bad_message_and_serves_the_next_good_one(
    reader: WorkerProcess, server: redis.Redis, client: ContextClient
) -> None:
    for at, poison in enumerate(POISON.values(), 1):
        server.lpush("estimate", _raw(poison))
        wait_until(
            lambda: int(server.get(QUARANTINED_COUNT) or 0) == at,  # noqa: B023
            what=f"{list(POISON)[at - 1]} put aside",
        )

    client.open("healthy")
    client.push_many(("healthy", message) for message in chat(5))

    wait_until(lambda: _counted(client), what="a valid hint served")
    wait_until(lambda: not server.exists("unacked", "estimate"), what="nothing put back")
    kept = [json.loads(entry) for entry in server.lrange(QUARANTINED, 0, -1)]
    assert len(kept) == len(POISON) <= QUARANTINED_KEPT
    assert kept[0].keys() == {"at_ms", "why", "queue", "size", "sha256", "headers"}
    assert MARK not in str(kept)
    assert MARK not in reader.output()
    assert reader.output().count("quarantined") >= 20
    assert "Traceback" not in reader.output()


def test_a_flood_of_bad_messages_leaves_a_short_list_and_a_short_log(
    reader: WorkerProcess, server: redis.Redis, client: ContextClient
) -> None:
    server.lpush("estimate", *[_raw(_message(timelimit=["a", "b"])) for _ in range(FLOOD)])
    client.open("healthy")
    client.push_many(("healthy", message) for message in chat(5))

    wait_until(lambda: _counted(client), within_s=60, what="a valid hint served")
    wait_until(lambda: int(server.get(QUARANTINED_COUNT) or 0) == FLOOD, what="all counted")
    assert server.llen(QUARANTINED) == QUARANTINED_KEPT
    assert reader.output().count("quarantined") < 100
