"""read, sessions, info and forget."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import redis

from tests.cli.commands import Ran
from turnmill import ContextClient, Policy
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

IMAGE = "data:image/png;base64,aGVsbG8="


def test_read_prints_the_messages_by_role(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    image = {"type": "image_url", "image_url": {"url": IMAGE}}
    link = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    client.open("s", system_prompt="be [bold]brief[/bold]")
    client.push("s", {"role": "user", "content": [{"type": "text", "text": "see"}, image, link]})
    client.push("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    client.push("s", {"role": "tool", "tool_call_id": "c1", "content": "found\x1b[2J"})

    ran = turnmill("read", "s")

    assert ran.exit_code == 0
    assert "be [bold]brief[/bold]" in ran.stdout
    assert "[image_url: image/png, " in ran.stdout
    assert "https://example.com/a.png" in ran.stdout
    assert IMAGE not in ran.stdout
    assert '→ look({"a":1})' in ran.stdout
    assert "tool (c1)" in ran.stdout
    assert "\x1b" not in ran.stdout, "a message must not drive the terminal"
    assert "turns to 3" in ran.stdout


@pytest.mark.parametrize(
    "answer",
    [
        [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "I look."}],
            },
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"a": 1}'},
        ],
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c", "name": "look", "input": {"a": 1}},
            ],
        },
    ],
)
def test_read_prints_what_was_said_in_any_dialect(
    turnmill: Callable[..., Ran], client: ContextClient, answer: list[dict[str, object]]
) -> None:
    client.push("s", answer)

    ran = turnmill("read", "s")

    assert "I look." in ran.stdout
    assert '→ look({"a": 1})' in ran.stdout.replace('"a":1', '"a": 1')


def test_read_json_is_the_bare_list_of_messages(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("s", {"role": "user", "content": "héllo \ud800"})

    ran = turnmill("read", "s", "--json")

    assert ran.json == client.read("s").messages


def test_sessions_are_listed_the_most_recently_pushed_first(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    for name in ("first", "second", "third"):
        client.push(name, {"role": "user", "content": "private words"})
        client.push(name, {"role": "user", "content": "more"})

    listed = turnmill("sessions", "--json").json
    table = turnmill("sessions", "--limit", "2")

    assert {row["session"] for row in listed} == {"first", "second", "third"}
    assert [row["last_seq"] for row in listed] == [2, 2, 2]
    assert "2 sessions" in table.stdout
    assert "and 1 more" in table.stdout
    assert "private" not in table.stdout


def test_an_empty_namespace_has_no_sessions(turnmill: Callable[..., Ran], namespace: str) -> None:
    assert f"no sessions in namespace {namespace};" in turnmill("sessions").stdout
    assert turnmill("sessions", "--json").json == []


def test_a_session_pushed_to_long_ago_says_how_long(
    turnmill: Callable[..., Ran], client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    client.push("old", {"role": "user", "content": "x"})
    keys = session_keys(Namespace(namespace), SessionId("old"))
    redis_client.zadd(keys.index, {"old": (time.time() - 7200) * 1000})
    redis_client.zadd(keys.due, {"old": (time.time() + 60) * 1000})

    assert "2 h ago" in turnmill("sessions").stdout
    assert "compaction due in" in turnmill("info", "old").stdout


def test_info_is_the_session_in_numbers(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.open("s", Policy(max_tokens=600), system_prompt="secret instructions")
    client.push("s", {"role": "user", "content": "private " * 500})

    table = turnmill("info", "s")
    found = turnmill("info", "s", "--json").json

    assert "1 pushed, 0 counted" in table.stdout
    assert "over its hard limit" in table.stdout
    assert found["last_seq"] == 1
    assert found["policy"]["max_tokens"] == 600
    assert found["under_limit"] is False
    assert "secret" not in table.stdout + json.dumps(found)


def test_forget_asks_first(turnmill: Callable[..., Ran], client: ContextClient) -> None:
    client.push("s", {"role": "user", "content": "x"})

    refused = turnmill("forget", "s", stdin="n\n")

    assert refused.exit_code == 1
    assert "Forget s with its 1 turn, in Redis and the archive?" in refused.stderr
    assert client.info("s").last_seq == 1
