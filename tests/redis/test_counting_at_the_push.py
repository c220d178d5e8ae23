"""An agent that has the workers' vocabulary counts what it pushes: no read is cut for a margin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.context import Usage
from turnmill.contract.errors import UnknownEncoding
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
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
def counting(redis_server: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client that counts what it pushes."""
    with ContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker(), counts_by="o200k_base"
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
    counting: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(counting, worker)

    context = counting.read("s")

    assert context.projection is None
    last = bounds(redis_client, namespace)[-1]
    assert last == (EXACT.count_messages([SAID]), b"o200k_base")


def test_without_the_count_the_same_context_is_cut(client: ContextClient, worker: Worker) -> None:
    fill(client, worker)

    assert client.read("s").projection is not None


def test_nothing_is_counted_before_the_policy_is_known(
    counting: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    counting.push("s", SAID)
    counting.read("s")
    counting.push("s", SAID)

    assert [by for _, by in bounds(redis_client, namespace)] == [b"", b"o200k_base"]


@pytest.mark.parametrize("encoding", ["o300k", "heuristic", "file:mine"])
def test_what_cannot_be_counted_by_is_refused(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=r"use one of o200k_base.*extra `counting`"):
        ContextClient(broker=SilentWaker(), counts_by=encoding)


def test_workers_find_the_numbers_that_the_agent_found(
    counting: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(counting, worker)
    counting.push("s", CALLED)
    counting.push_many([("s", SAID)])
    found = bounds(redis_client, namespace)

    worker.pipeline.estimate(worker.ref("s"))

    keys = session_keys(Namespace(namespace), SessionId("s"))
    counts = [int(redis_client.hget(keys.counts, str(at)) or 0) for at in range(1, len(found) + 1)]
    exact = [(bound, count) for (bound, by), count in zip(found, counts, strict=True) if by]
    assert len(exact) >= 3
    assert all(bound == count for bound, count in exact)


def test_under_another_encoding_a_bound_is_fitted_anew(
    counting: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(counting, worker)

    counting.open("s", Policy(max_tokens=65_536, encoding="cl100k_base"))

    noted = sum(bound for bound, _ in bounds(redis_client, namespace))
    assert counting.read("s").tokens > noted + Usage.REPLY


def test_what_would_hold_the_agent_up_or_is_no_text_keeps_its_bound(
    counting: ContextClient, worker: Worker, redis_client: redis.Redis, namespace: str
) -> None:
    fill(counting, worker)
    pixel = {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}
    counting.push("s", {"role": "user", "content": [pixel]})
    assert bounds(redis_client, namespace)[-1][1] == b""
    counting.push("s", {"role": "user", "content": "word " * 20_000})
    assert bounds(redis_client, namespace)[-1][1] == b""

    counting.open("s", POLICY.model_copy(update={"encoding": "file:mine"}))
    counting.read("s")
    counting.push("s", SAID)
    assert bounds(redis_client, namespace)[-1][1] == b""
