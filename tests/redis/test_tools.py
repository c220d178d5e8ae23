"""Tools an agent tells of: counted in every limit, changed by opening again, seen in info."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.plain_cipher import cipher
from tests.redis.conftest import Connect, Surface, Worker
from turnmill import Policy, SystemPromptTooLarge
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.tools import count_tools, tools_body
from turnmill_worker.tokens import count_request, counter_for

SMALL = Policy(max_tokens=2048, quality_threshold=0)


def tool(words: int) -> dict[str, Any]:
    about = {"name": "look", "description": "word " * words}
    return {"type": "function", "function": {**about, "parameters": {"type": "object"}}}


def turn(at: int) -> dict[str, Any]:
    return {"role": "user", "content": f"turn {at} " + "word " * 60}


def exact(tools: list[dict[str, Any]]) -> int:
    return count_tools(counter_for().count, tools_body(tools))


def test_tools_are_bounded_at_once_and_counted_exactly_by_a_worker(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL, "You are terse.", tools=[tool(100)])
    before = either.info("s")

    worker.pipeline.estimate(worker.ref("s"))

    after = either.info("s")
    assert before.tools_tokens >= after.tools_tokens == exact([tool(100)])
    assert after.usage.system == after.tools_tokens + after.system_prompt_tokens
    assert after.limits == SMALL.limits(after.usage.system)
    assert after.conversation_tokens == 3


def test_a_request_with_its_tools_never_exceeds_the_limit(either: Surface, worker: Worker) -> None:
    tools = [tool(900)]
    either.open("s", SMALL, tools=tools)

    for at in range(40):
        either.push("s", turn(at))
        read = either.read("s")
        whole = count_request(counter_for(), read.messages) + exact(tools)
        assert whole <= read.tokens <= SMALL.max_tokens
        if at % 7 == 6:
            worker.work("s")
    assert either.info("s").compactions > 1


def test_a_compaction_leaves_the_target_with_the_tools(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, tools=[tool(900)])
    either.push_many([("s", turn(at)) for at in range(14)])

    assert worker.work("s") == "committed"

    found = either.info("s")
    assert found.usage.total <= found.limits.target
    assert found.limits.target > exact([tool(900)])


def test_opening_again_changes_the_tools_and_leaves_what_is_not_given(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL, "You are terse.", tools=[tool(100)])
    either.open("s", SMALL)
    worker.pipeline.estimate(worker.ref("s"))
    first = either.info("s")

    either.open("s", tools=[tool(200)])
    worker.pipeline.estimate(worker.ref("s"))

    second = either.info("s")
    assert (first.tools_tokens, second.tools_tokens) == (exact([tool(100)]), exact([tool(200)]))
    assert second.system_prompt_tokens == first.system_prompt_tokens
    assert (second.policy, second.settings) == (SMALL, first.settings + 1)


def test_an_empty_list_takes_the_tools_out(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, tools=[tool(100)])
    worker.pipeline.estimate(worker.ref("s"))

    either.open("s", tools=[])

    worker.pipeline.estimate(worker.ref("s"))
    assert (either.info("s").tools_tokens, either.info("s").usage.system) == (0, 0)


def test_opening_with_the_same_tools_asks_for_no_work(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, tools=[tool(100)])
    worker.pipeline.estimate(worker.ref("s"))

    either.open("s", SMALL, tools=[tool(100)])

    assert either.info("s").pending_for_s is None


def test_prompt_and_tools_that_leave_no_room_together_are_refused(either: Surface) -> None:
    either.open("s", SMALL, "rule " * 1000)

    with pytest.raises(SystemPromptTooLarge, match=r"prompt and tools: .* 2048") as refused:
        either.open("s", tools=[tool(1000)])

    assert "word" not in str(refused.value)
    assert either.info("s").tools_tokens == 0


def test_tools_that_fit_by_their_exact_count_are_taken(either: Surface) -> None:
    tools = [tool(1500)]

    either.open("s", SMALL, tools=tools)

    assert either.info("s").tools_tokens == exact(tools)


def test_tools_are_counted_again_under_another_encoding(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, tools=[tool(100)])
    either.push("s", turn(1))
    worker.pipeline.estimate(worker.ref("s"))

    either.open("s", SMALL.model_copy(update={"encoding": "cl100k_base"}))
    bound = either.read("s").tokens
    worker.pipeline.estimate(worker.ref("s"))

    counter = counter_for("cl100k_base")
    found = either.info("s")
    assert found.basis == counter.basis
    assert found.tools_tokens == count_tools(counter.count, tools_body([tool(100)]))
    assert bound >= found.usage.total


def test_a_conversation_that_is_set_aside_keeps_its_tools(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, tools=[tool(100)])
    either.push("s", turn(1))
    worker.pipeline.estimate(worker.ref("s"))

    either.clear("s")

    assert either.info("s").usage.total == exact([tool(100)]) + 3


def test_the_handle_sets_tools(either: Surface, worker: Worker) -> None:
    either.manager("s", SMALL, tools=[tool(100)])
    worker.pipeline.estimate(worker.ref("s"))

    assert either.info("s").tools_tokens == exact([tool(100)])


def test_tools_are_stored_encrypted_where_content_is(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    sealed = connect(redis_server.url, namespace=namespace, cipher=cipher)

    sealed.open("s", SMALL, tools=[tool(100)])

    keys = redis_client.keys(f"*{namespace}*:s:s:meta")
    stored = [redis_client.hget(key, "tools") or b"" for key in keys]
    assert any(stored)
    assert not any(b"look" in each for each in stored)
