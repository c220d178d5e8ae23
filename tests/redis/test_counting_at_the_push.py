"""An agent that has the workers' vocabulary counts what it pushes: no read is cut for a margin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.contract.context import Usage
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.tokens import counter_for

POLICY = Policy(max_tokens=2048)
SAID = {"role": "user", "content": "The order for Anna has not arrived at Hamburg yet. " * 5}
CALLED: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "look_up_order", "arguments": '{"id": "#W2378156"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"rows": [{"price": 12.50}]}' * 8},
]
EXACT = counter_for("o200k_base")


@pytest.fixture
def blind(redis_server: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client that does not count."""
    with ContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker(), counts_tokens=False
    ) as made:
        yield made


def fill(client: ContextClient, worker: Worker) -> None:
    """Push and read as an agent does up to just below the limit; a worker counts the first half."""
    client.open("s", POLICY)
    room, each = POLICY.hard_limit - 3, EXACT.count_messages([SAID])
    for at in range(room // each):
        client.push("s", SAID)
        client.read("s")
        if at == room // each // 2:
            worker.pipeline.estimate(worker.ref("s"))


def bounds(server: redis.Redis, namespace: str) -> list[tuple[int, bytes]]:
    """Of each turn in the log: its bound, and what counted it."""
    keys = session_keys(Namespace(namespace), SessionId("s"))
    log: Any = server.xrange(keys.log)
    return [(int(fields[b"bound"]), fields.get(b"counted_by", b"")) for _, fields in log]


def test_a_context_that_fits_is_not_cut_though_workers_are_late(
    client: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(client, worker)

    context = client.read("s")

    assert context.projection is None
    last = bounds(redis_client, namespace)[-1]
    assert last == (EXACT.count_messages([SAID]), b"o200k_base")


def test_without_the_count_the_same_context_is_cut(blind: ContextClient, worker: Worker) -> None:
    fill(blind, worker)

    assert blind.read("s").projection is not None


def test_nothing_is_counted_while_contexts_are_small(
    client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    client.open("s", POLICY)
    for _ in range(3):
        client.push("s", SAID)
        client.read("s")

    assert {by for _, by in bounds(redis_client, namespace)} == {b""}


def test_workers_find_the_numbers_that_the_agent_found(
    client: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(client, worker)
    client.push("s", CALLED)
    client.push_many([("s", SAID)])
    found = bounds(redis_client, namespace)

    worker.pipeline.estimate(worker.ref("s"))

    keys = session_keys(Namespace(namespace), SessionId("s"))
    counts = [int(redis_client.hget(keys.counts, str(at)) or 0) for at in range(1, len(found) + 1)]
    exact = [(bound, count) for (bound, by), count in zip(found, counts, strict=True) if by]
    assert len(exact) >= 3
    assert all(bound == count for bound, count in exact)


def test_under_another_encoding_a_bound_is_fitted_anew(
    client: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(client, worker)

    client.open("s", Policy(max_tokens=65_536, encoding="cl100k_base"))

    noted = sum(bound for bound, _ in bounds(redis_client, namespace))
    assert client.read("s").tokens > noted + Usage.REPLY


def test_what_would_hold_the_agent_up_or_is_no_text_keeps_its_bound(
    client: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(client, worker)
    pixel = {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}
    client.push("s", {"role": "user", "content": [pixel]})
    assert bounds(redis_client, namespace)[-1][1] == b""
    client.push("s", {"role": "user", "content": "word " * 20_000})
    assert bounds(redis_client, namespace)[-1][1] == b""

    client.open("s", POLICY.model_copy(update={"encoding": "file:mine"}))
    client.read("s")
    client.push("s", SAID)
    assert bounds(redis_client, namespace)[-1][1] == b""
