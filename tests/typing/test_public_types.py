"""The public API as its users' type checkers see it: `mypy` checks this file, pytest runs it."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

from turnmill import (
    AsyncContextClient,
    Context,
    ContextClient,
    ContextInfo,
    HintCounts,
    InvalidInput,
    Limits,
    Message,
    Policy,
    Pushed,
    Receipt,
    SilentWaker,
    StoreUnavailable,
    Transient,
    Turn,
    TurnmillError,
    UnknownSession,
    Usage,
    Waker,
)
from turnmill.contract.results import Forgotten
from turnmill.embedded_redis import EmbeddedRedis


def test_the_synchronous_client(client: ContextClient) -> None:
    policy = Policy(max_tokens=4_096, strategies=("elide", "rolling"))
    turn = Turn(messages=(Message(role="user", content="Hello"),), turn_id="t-1", pinned=True)

    assert_type(client.push("s", turn), Pushed)
    assert_type(client.push("s", {"role": "user", "content": "Hello"}, turn_id="t-2"), Pushed)
    assert_type(
        client.push_many([("s", turn), ("s", {"role": "user", "content": "Hi"})]), list[Pushed]
    )
    client.open("s", policy, system_prompt="Be brief.")
    context = client.read("s")
    assert_type(context, Context)
    assert_type(context.messages, list[dict[str, Any]])
    assert_type(context.tokens, int)
    assert_type(context.projection, Receipt | None)
    info = client.info("s")
    assert_type(info, ContextInfo)
    assert_type(info.usage, Usage)
    assert_type(info.usage.total, int)
    assert_type(info.limits, Limits)
    assert_type(info.policy, Policy)
    assert_type(info.pending_for_s, float | None)
    assert_type(client.hints, HintCounts)
    assert_type(client.namespace, str)
    assert_type(client.forget("s"), Forgotten)


async def test_the_asynchronous_client(redis_server: EmbeddedRedis, namespace: str) -> None:
    waker: Waker = SilentWaker()
    async with AsyncContextClient(redis_server.url, namespace=namespace, broker=waker) as client:
        assert_type(client, AsyncContextClient)
        await client.open("s", Policy(), system_prompt="Be brief.")
        assert_type(await client.push("s", {"role": "user", "content": "Hello"}), Pushed)
        assert_type(
            await client.push_many([("s", {"role": "user", "content": "Hi"})]), list[Pushed]
        )
        assert_type(await client.read("s"), Context)
        assert_type(await client.info("s"), ContextInfo)
        assert_type(await client.forget("s"), Forgotten)


def test_a_session_name_is_a_str(client: ContextClient) -> None:
    with pytest.raises(InvalidInput):
        client.push(7, {"role": "user", "content": "Hello"})  # type: ignore[arg-type]


def test_a_policy_takes_names_of_strategies_only() -> None:
    with pytest.raises(InvalidInput):
        Policy(strategies=(7,))


def test_values_are_frozen(client: ContextClient) -> None:
    pushed = client.push("s", {"role": "user", "content": "Hello"})

    with pytest.raises(AttributeError):
        pushed.seq = 7  # type: ignore[misc, assignment]


def test_errors_can_be_told_apart_by_type(client: ContextClient) -> None:
    def read() -> Context | None:
        try:
            return client.read("nobody")
        except Transient as passing:
            assert_type(passing, Transient)
            raise
        except UnknownSession as missing:
            assert_type(missing, UnknownSession)
            return None

    assert read() is None
    assert issubclass(StoreUnavailable, Transient)
    assert issubclass(UnknownSession, LookupError | TurnmillError)
