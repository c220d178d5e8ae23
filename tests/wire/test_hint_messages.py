"""What a hint is on the wire: a Celery protocol 2 message, JSON, two names, nothing of content."""

from __future__ import annotations

import base64
import json
from typing import Any

import redis

from tests.processes import wait_until
from turnmill import ContextClient
from turnmill.contract import jobs
from turnmill.contract.names import namespace, session_id


def _waiting(messages: redis.Redis, queue: str = "estimate") -> list[dict[str, Any]]:
    raw: Any = messages
    return [json.loads(one) for one in reversed(raw.lrange(queue, 0, -1))]


def _body(message: dict[str, Any]) -> Any:
    assert message["properties"]["body_encoding"] == "base64"
    return json.loads(base64.b64decode(message["body"]))


def _hint(messages: redis.Redis, client: ContextClient) -> dict[str, Any]:
    client.push("agent-7", {"role": "user", "content": "my words", "name": "my-name"})
    wait_until(lambda: client.hints.published == 1)
    (message,) = _waiting(messages)
    return message


def test_a_hint_carries_the_namespace_and_the_session_only(
    messages: redis.Redis, hinting: ContextClient
) -> None:
    args, kwargs, embed = _body(_hint(messages, hinting))

    assert args == [hinting.namespace, "agent-7"]
    assert kwargs == {}
    assert set(embed.values()) == {None}


def test_a_hint_is_a_protocol_2_message_in_json(
    messages: redis.Redis, hinting: ContextClient
) -> None:
    message = _hint(messages, hinting)

    assert message["content-type"] == "application/json"
    assert message["content-encoding"] == "utf-8"
    assert message["headers"]["task"] == "turnmill.estimate"
    # An eta would sit unacknowledged in a worker; a deferred retry is a score in the due list.
    assert message["headers"]["eta"] is None
    assert "my words" not in json.dumps([message, _body(message)])
    assert message["headers"]["id"] == message["properties"]["correlation_id"]
    assert message["headers"]["argsrepr"] == repr((hinting.namespace, "agent-7"))
    assert message["properties"]["delivery_info"]["routing_key"] == "estimate"


def test_one_hint_stands_for_a_burst(messages: redis.Redis, hinting: ContextClient) -> None:
    for at in range(50):
        hinting.push("agent-7", {"role": "user", "content": f"turn {at}"})
    hinting.push("agent-8", {"role": "user", "content": "somebody else"})
    wait_until(lambda: hinting.hints.published == 2)

    sessions = [_body(message)[0][1] for message in _waiting(messages)]
    assert sessions == ["agent-7", "agent-8"]


def test_hints_that_follow_soon_leave_in_one_message_with_no_session_twice(
    messages: redis.Redis, hinting: ContextClient
) -> None:
    sessions = [f"agent-{at}" for at in range(40)]
    waker, name = hinting._waker, namespace(hinting.namespace)

    for session in [*sessions, *sessions[20:]]:
        waker.wake(name, session_id(session))
    wait_until(lambda: hinting.hints.published == 60)

    sent = [_body(message)[0] for message in _waiting(messages)]
    named = [[first, *(others[0] if others else ())] for _, first, *others in sent]
    assert {name for names in named for name in names} == set(sessions)
    assert all(len(names) == len(set(names)) for names in named)
    assert len(sent) <= 3


def test_a_question_does_not_wait_for_hints_that_gather(
    messages: redis.Redis, hinting: ContextClient
) -> None:
    waker, name = hinting._waker, namespace(hinting.namespace)
    for session in ("agent-7", "agent-8"):
        waker.wake(name, session_id(session))
    waker.wake(name, session_id("agent-9"), task=jobs.GROUND, ask="7")
    wait_until(lambda: hinting.hints.published == 3)

    (asked,) = _waiting(messages, jobs.QUEUE_OF[jobs.GROUND])
    assert _body(asked)[0] == [hinting.namespace, "agent-9", "7"]


def test_a_duplicate_push_publishes_no_hint(messages: redis.Redis, hinting: ContextClient) -> None:
    turn = {"role": "user", "content": "once"}
    hinting.push("agent-7", turn, turn_id="t")
    wait_until(lambda: hinting.hints.published == 1)
    messages.delete("estimate")

    hinting.push("agent-7", turn, turn_id="t")
    hinting.push("agent-8", turn)
    wait_until(lambda: hinting.hints.published == 2)

    assert [_body(message)[0][1] for message in _waiting(messages)] == ["agent-8"]
