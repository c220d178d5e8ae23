"""What can be seen to be wrong is refused before a worker is asked, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.redis.conftest import Connect, Surface
from turnmill import (
    ContextClient,
    InvalidInput,
    InvalidName,
    InvalidPolicy,
    NotAnswered,
    Policy,
)
from turnmill.connection.embedded import EmbeddedRedis

HI = {"role": "user", "content": "hi"}
MINUTE = 60.0

Call = Callable[[Surface], Any]

ABOUT_A_SESSION: dict[str, Callable[[Surface, Any, Any], Any]] = {
    "rollback": lambda client, session, time: client.rollback(session, timeout_s=time),
    "summarize": lambda client, session, time: client.summarize(session, timeout_s=time),
    "trajectory": lambda client, session, time: client.trajectory(session, timeout_s=time),
}
ABOUT_A_NAMESPACE: dict[str, Callable[[Surface, Any], Any]] = {
    "ground": lambda client, time: client.ground("what?", timeout_s=time),
    "remember": lambda client, time: client.remember("this", timeout_s=time),
}
NO_TIMES = [-1, -0.5, float("nan"), float("inf"), 10**9, "5", None, True]


@pytest.mark.parametrize("ask", ABOUT_A_SESSION.values(), ids=ABOUT_A_SESSION)
@pytest.mark.parametrize("name", ["", "two words", "x" * 201, None, 7])
def test_no_worker_is_asked_about_a_session_that_cannot_be(
    either: Surface, ask: Callable[[Surface, Any, Any], Any], name: Any
) -> None:
    with pytest.raises(InvalidName, match=r"session name: got .*; allowed are 1 to 200"):
        ask(either, name, MINUTE)


@pytest.mark.parametrize("time", NO_TIMES)
def test_a_time_nobody_can_wait_is_refused(either: Surface, time: Any) -> None:
    either.push("s", HI)

    for about in ABOUT_A_SESSION.values():
        with pytest.raises(
            InvalidInput, match=r"timeout_s: got .*; allowed are 0 to 86400 seconds"
        ):
            about(either, "s", time)
    for ask in ABOUT_A_NAMESPACE.values():
        with pytest.raises(
            InvalidInput, match=r"timeout_s: got .*; allowed are 0 to 86400 seconds"
        ):
            ask(either, time)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.rollback("s", 1.5), "to: must be a checkpoint's id, a version"),
        (lambda client: client.rollback("s", True), "to: must be .*, got bool"),  # noqa: FBT003
        (
            lambda client: client.summarize("s", template=5),
            "template name: got a value of type int",
        ),
        (lambda client: client.summarize("s", template="../x"), "template name: got 4 characters"),
        (lambda client: client.summarize("s", template=None, wait=False), "template name: got"),
        (lambda client: client.ground("what?", "5"), r"k of type str must be in 1\.\.100"),
        (lambda client: client.ground("what?", 2.5), r"k of type float must be in 1\.\.100"),
        (lambda client: client.remember("x" * 100_001), "100001 characters; a memory has at most"),
    ],
)
def test_what_no_worker_could_answer_is_refused_at_once(
    either: Surface, call: Call, said: str
) -> None:
    either.push("s", HI)

    with pytest.raises(InvalidInput, match=said):
        call(either)


STORED = pytest.mark.parametrize(
    "call",
    [
        lambda client, policy: client.open("new", policy),
        lambda client, policy: client.set_policy("short", policy),
    ],
    ids=["open", "set_policy"],
)


@STORED
@pytest.mark.parametrize(
    ("changes", "says"), [({"soft_ratio": 5}, "soft_ratio"), ({"encoding": 5}, "encoding")]
)
def test_a_copy_that_nobody_checked_is_refused_before_reads_would_fail_on_it(
    either: Surface, call: Callable[[Surface, Any], Any], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidPolicy, match=says):
        call(either, Policy().model_copy(update=changes))

    assert either.sessions() == []
    assert either.policies() == {}


@STORED
@pytest.mark.parametrize("policy", [{"max_tokens": 4096}, 4096])
def test_a_policy_that_is_none_is_refused_and_nothing_is_stored(
    either: Surface, call: Callable[[Surface, Any], Any], policy: Any
) -> None:
    with pytest.raises(
        InvalidPolicy, match=r"must be a Policy, got (dict|int); Policy\(\*\*fields"
    ):
        call(either, policy)

    assert either.sessions() == []
    assert either.policies() == {}


def test_a_client_of_little_patience_can_wait_long_for_an_answer(
    connect: Connect, redis_server: EmbeddedRedis, namespace: str
) -> None:
    hasty = connect(redis_server.url, broker=redis_server.url, namespace=namespace, timeout_s=1)
    hasty.push("s", HI)

    with pytest.raises(NotAnswered, match=r"no worker took it up within 1\.5 s"):
        hasty.rollback("s", timeout_s=1.5)


def test_a_client_given_waits_no_longer_than_its_own_sockets(
    redis_server: EmbeddedRedis, namespace: str
) -> None:
    theirs = redis.Redis.from_url(redis_server.url, socket_timeout=0.3)
    client = ContextClient(theirs, namespace=namespace, broker=redis_server.url)
    client.push("s", HI)

    with theirs, pytest.raises(NotAnswered, match="no worker took it up within 1 s"):
        client.rollback("s", timeout_s=1)
