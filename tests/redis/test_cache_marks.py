"""Sessions whose policy wants cache marks have them in Anthropic's requests, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.redis.conftest import Surface, Worker
from turnmill import Policy

POLICY = Policy(max_tokens=1024, quality_threshold=0, cache_marks=True)
MARK = {"cache_control": {"type": "ephemeral"}}


def turn(at: int) -> dict[str, Any]:
    text = {"type": "text", "text": f"turn {at} " + "word " * 60, **MARK}
    return {"role": "user", "content": [text]}


def marked(request: dict[str, Any]) -> list[str]:
    """The texts of blocks with a mark."""
    said = [*request.get("system", ()), *(b for m in request["messages"] for b in m["content"])]
    return [b["text"] for b in said if isinstance(b, dict) and "cache_control" in b]


def test_marks_stand_behind_the_prompt_and_the_head_and_stay_there(
    either: Surface, worker: Worker
) -> None:
    either.open("s", POLICY, "You are terse.")
    first = marked(either.read("s").request_for("anthropic"))
    for at in range(12):
        either.push("s", turn(at))
        if at % 4 == 3:
            worker.work("s")
    assert either.info("s").compactions > 0

    before = either.read("s").request_for("anthropic")
    either.push("s", turn(99))
    after = either.read("s").request_for("anthropic")

    assert first == ["You are terse."]
    assert marked(before)[0] == "You are terse."
    assert len(marked(before)) == 2
    assert marked(after) == marked(before)
    assert after["system"] == before["system"]
    assert after["messages"][:-1] == before["messages"]


def test_a_projected_context_has_a_mark_behind_its_prompt_alone(either: Surface) -> None:
    either.open("s", POLICY, "You are terse.")
    either.push_many([("s", turn(at)) for at in range(20)])

    read = either.read("s")

    assert read.projection is not None
    assert marked(read.request_for("anthropic")) == ["You are terse."]


def test_other_dialects_have_no_marks_of_ours(either: Surface) -> None:
    either.open("s", POLICY, "You are terse.")
    either.push("s", {"role": "user", "content": "Hello."})

    read = either.read("s")

    assert "cache_control" not in str(read.request_for("chat"))
    assert "cache_control" not in str(read.request_for("responses"))


def test_without_the_policys_wish_nothing_is_marked(either: Surface) -> None:
    either.open("s", Policy(), "You are terse.")
    either.push("s", {"role": "user", "content": "Hello."})

    assert either.read("s").request_for("anthropic")["system"] == "You are terse."


PUSHED = Policy(max_tokens=1024, quality_threshold=0)


@pytest.mark.parametrize("dialect", ["chat", "anthropic"])
def test_an_agent_that_marks_every_turn_gets_the_last_two_marks_back(
    either: Surface, worker: Worker, dialect: str
) -> None:
    either.open("s", PUSHED.model_copy(update={"dialect": dialect}), "You are terse.")
    for at in range(16):
        either.push("s", turn(at))
        read = either.read("s")
        if at % 4 == 3:
            worker.work("s")

        lists = [m["content"] for m in read.messages if isinstance(m["content"], list)]
        newest = [block["text"] for blocks in lists for block in blocks][-2:]
        assert newest[-1].startswith(f"turn {at} ")
        assert marked({"messages": read.messages}) == newest
        assert marked(read.request_for("anthropic")) == newest
        assert read.request_for("anthropic")["system"] == "You are terse."
    assert either.info("s").compactions > 0


def test_a_projected_context_has_no_more_than_two_pushed_marks(either: Surface) -> None:
    either.open("s", PUSHED, "You are terse.")
    either.push_many([("s", turn(at)) for at in range(20)])

    read = either.read("s")

    assert read.projection is not None
    found = marked(read.request_for("anthropic"))
    assert 1 <= len(found) <= 2
    assert found == marked({"messages": read.messages})
    assert found[-1].startswith("turn 19 ")
