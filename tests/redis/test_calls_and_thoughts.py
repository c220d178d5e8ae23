"""What a read makes of calls with one id, of late results, and of thoughts behind a new prefix."""

from __future__ import annotations

import json
from typing import Any

from tests.redis.conftest import Connect, Surface, Worker
from turnmill import Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations

Json = dict[str, Any]
LONG: Json = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512, dialect="anthropic")


def thinking(name: str) -> Json:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": name}
    return {"role": "assistant", "content": [thought, {"type": "text", "text": f"Said {name}."}]}


def thoughts(client: Surface) -> list[str]:
    """The signatures in the context, of which every provider would take the rest too."""
    context = client.read("s")
    for dialect in DIALECTS:
        assert violations(context.messages_for(dialect), dialect) == []
    blocks = [b for each in context.messages for b in each["content"] if isinstance(b, dict)]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def compacted(client: Surface, worker: Worker) -> None:
    client.push_many([("s", LONG)] * 12)
    assert worker.work("s") == "committed"


def test_thoughts_stay_until_a_commit_changes_what_stands_before_them(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.push("s", LONG)
    either.step("s", thinking("a"))
    assert thoughts(either) == ["a"]
    either.push_many([("s", LONG)] * 12)
    either.push("s", thinking("b"))

    worker.work("s")
    assert thoughts(either) == []

    either.step("s", thinking("c"))
    either.step("s", LONG)
    assert thoughts(either) == ["c"]


def test_a_thought_that_came_while_a_commit_was_made_is_left_out_and_the_next_is_kept(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.step("s", LONG)
    compacted(either, worker)
    # Its agent had read the context of before.
    either.push("s", thinking("late"))

    assert thoughts(either) == []
    either.push("s", thinking("now"))
    assert thoughts(either) == ["now"]
    assert "Said late." in json.dumps(either.read("s").messages)


def test_thoughts_of_before_another_system_prompt_are_left_out(either: Surface) -> None:
    either.open("s", SMALL, "Be brief.")
    either.step("s", LONG)
    either.push("s", thinking("a"))
    assert thoughts(either) == ["a"]

    either.open("s", system_prompt="Be wordy.")

    assert thoughts(either) == []


def test_a_projected_context_has_no_thoughts_nor_have_later_ones_what_was_thought_under_it(
    either: Surface,
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", LONG)] * 12)
    assert either.read("s").projection is not None
    either.push("s", thinking("a"))
    assert thoughts(either) == []

    either.open("s", Policy(max_tokens=9_000, dialect="anthropic"))

    assert either.read("s").projection is None
    assert thoughts(either) == []


def test_what_a_client_pushes_that_never_read_has_thoughts_while_nothing_was_compacted(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", LONG), ("s", thinking("a"))])
    assert thoughts(either) == ["a"]

    compacted(either, worker)

    assert thoughts(either) == []


def test_calls_with_one_id_are_told_apart_in_every_read_alike(
    either: Surface, connect: Connect, redis_server: EmbeddedRedis, namespace: str
) -> None:
    either.open("s", Policy(dialect="anthropic"))
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    used = {"type": "tool_result", "tool_use_id": "c"}
    for at in range(3):
        either.step("s", {"role": "user", "content": "Look."})
        either.push("s", {"role": "assistant", "content": [use, use]})
        either.step("s", {"role": "user", "content": [{**used, "content": f"left {at}"}]})
        either.step("s", {"role": "user", "content": [{**used, "content": f"right {at}"}]})

    read = either.read("s")

    fresh = connect(redis_server.url, namespace=namespace)
    assert fresh.read("s").messages == read.messages
    assert violations(read.messages, "anthropic") == []
    assert json.dumps(read.messages).count('"tool_use"') == 6
    assert "no result was recorded" not in json.dumps(read.messages)


def test_a_result_that_comes_three_compactions_later_is_told_once(
    either: Surface, worker: Worker
) -> None:
    either.open("s", Policy(max_tokens=512))
    call = {"id": "sub", "type": "function", "function": {"name": "delegate", "arguments": "{}"}}
    either.push("s", {"role": "user", "content": "Have someone look into it."})
    either.push("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    for _ in range(3):
        for _ in range(10):
            either.push_many([("s", LONG)] * 10)
            worker.work("s")
    assert either.info("s").compactions >= 3

    either.push("s", {"role": "tool", "tool_call_id": "sub", "content": "It was the seal."})

    context = either.read("s")
    for dialect in DIALECTS:
        found = context.messages_for(dialect)
        assert violations(found, dialect) == []
        assert json.dumps(found).count("It was the seal.") == 1
