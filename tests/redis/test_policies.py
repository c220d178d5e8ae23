"""What a session is kept under: its policy, its prompt, its tools, its provider's own counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.plain_cipher import cipher
from tests.redis.conftest import Connect, Surface, Worker
from turnmill import (
    Context,
    ContextClient,
    Policy,
    SilentWaker,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.tools import count_tools, tools_body
from turnmill_worker.tokens import count_request, counter_for

# --- Policies by name: for sessions that follow the name, now and when it changes.


ONE, OTHER = Policy(max_tokens=1_000), Policy(max_tokens=2_000)
SHORT = {"role": "user", "content": "word"}


def test_sessions_that_follow_a_name_take_up_its_change(either: Surface) -> None:
    either.set_policy("short", ONE)
    for session in ("a", "b"):
        either.open(session, "short")
    either.open("own", ONE)

    assert either.set_policy("short", OTHER) == 2

    assert [either.info(s).policy for s in ("a", "b", "own")] == [OTHER, OTHER, ONE]


@pytest.mark.parametrize("how", ["push", "push_many", "open"])
def test_sessions_without_a_policy_follow_the_default(either: Surface, how: str) -> None:
    either.set_policy("default", ONE)

    if how == "push":
        either.push("s", SHORT)
    elif how == "push_many":
        either.push_many([("s", SHORT)] * 2)
    else:
        either.open("s")

    assert either.info("s").policy == ONE
    assert either.set_policy("default", OTHER) == 1
    assert either.info("s").policy == OTHER


# --- Tools an agent tells of: counted in every limit, changed by opening again, seen in info.


ROOMY = Policy(max_tokens=2048, quality_threshold=0)


def tool(words: int) -> dict[str, Any]:
    about = {"name": "look", "description": "word " * words}
    return {"type": "function", "function": {**about, "parameters": {"type": "object"}}}


def turn(at: int) -> dict[str, Any]:
    return {"role": "user", "content": f"turn {at} " + "word " * 60}


def exact(tools: list[dict[str, Any]]) -> int:
    return count_tools(counter_for().count, tools_body(tools))


def test_a_request_with_its_tools_never_exceeds_the_limit(either: Surface, worker: Worker) -> None:
    tools = [tool(900)]
    either.open("s", ROOMY, tools=tools)

    for at in range(40):
        either.push("s", turn(at))
        read = either.read("s")
        whole = count_request(counter_for(), read.messages) + exact(tools)
        assert whole <= read.tokens <= ROOMY.max_tokens
        if at % 7 == 6:
            worker.work("s")
    assert either.info("s").compactions > 1


def test_tools_are_stored_encrypted_where_content_is(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    sealed = connect(redis_server.url, namespace=namespace, cipher=cipher)

    sealed.open("s", ROOMY, tools=[tool(100)])

    keys = redis_client.keys(f"*{namespace}*:s:s:meta")
    stored = [redis_client.hget(key, "tools") or b"" for key in keys]
    assert any(stored)
    assert not any(b"look" in each for each in stored)


# --- Usage an agent tells of: limits are kept in the provider's tokens, and info shows the error.


POLICY = Policy(max_tokens=4096, quality_threshold=0)


def user(at: int) -> dict[str, str]:
    return {"role": "user", "content": f"question {at} " + "word " * 60}


def answer(at: int) -> dict[str, str]:
    return {"role": "assistant", "content": f"answer {at} " + "text " * 40}


def provider(ratio: float) -> Callable[[Context], int]:
    """Counts what it is sent in tokens of its own."""
    return lambda context: math.ceil(count_request(counter_for(), context.messages) * ratio)


def steps(either: Surface, worker: Worker, count: Callable[[Context], int], n: int) -> list[int]:
    """So many steps of an agent that tells of usage; returns what the provider counted."""
    counted = []
    for at in range(n):
        either.push("s", user(at))
        read = either.read("s")
        counted.append(count(read))
        usage = {"prompt_tokens": counted[-1]}
        either.push("s", answer(at), usage=usage)
        worker.work("s")
    return counted


@pytest.mark.parametrize("ratio", [0.8, 2.5])
def test_the_limit_is_kept_in_the_providers_tokens(
    either: Surface, worker: Worker, ratio: float
) -> None:
    either.open("s", POLICY, "You are terse.")

    counted = steps(either, worker, provider(ratio), 40)

    # The first calls are what it is learned from.
    assert all(tokens <= POLICY.max_tokens for tokens in counted)
    assert max(counted) > POLICY.max_tokens * 0.6
    found = either.info("s")
    assert found.correction.ratio == pytest.approx(ratio, abs=0.01)
    assert found.correction.error == pytest.approx(0, abs=0.01)
    assert found.limits.hard == POLICY.max_tokens
    assert found.compactions > 0


# --- An agent that has the workers' vocabulary counts what it pushes: no read is cut for a margin.


COUNTED = Policy(max_tokens=2048)
SAID = {"role": "user", "content": "The order for Anna has not arrived at Hamburg yet. " * 5}
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
    client.open("s", COUNTED)
    room, each = COUNTED.hard_limit - 3, EXACT.count_messages([SAID])
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
