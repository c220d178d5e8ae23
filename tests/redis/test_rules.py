"""Rules through a client: listed, laid down, revoked, and kept by compactions."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import InvalidInput, Policy, UnknownSession
from turnmill.contract.context import StoredContext

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512, checkpoint_interval=0)


def texts(surface: Surface, session: str = "s") -> list[str]:
    return [rule.text for rule in surface.rules(session)]


class Handle(Surface):
    """The session's handle, called like the client."""

    def __init__(self, surface: Surface) -> None:
        self._loop = surface._loop
        self.client = surface.manager("s")


@pytest.fixture
def talk(either: Surface) -> str:
    either.open("s", SMALL, "You are terse.")
    either.push("s", {"role": "user", "content": "Hi. Do not ever email me. Always use metres."})
    either.push("s", {"role": "assistant", "content": "Noted: always answer in German."})
    return "s"


def test_a_marked_rule_is_known_before_any_worker_ran_and_no_other(
    either: Surface, talk: str
) -> None:
    Handle(either).instruct("Call me Max.")

    assert [(rule.id, rule.text) for rule in either.rules(talk)] == [("3", "Call me Max.")]


def test_what_a_user_laid_down_stands_behind_the_system_prompt_after_each_compaction(
    either: Surface, worker: Worker, talk: str
) -> None:
    beginnings = []
    for _ in range(3):
        either.push_many([(talk, LONG)] * 8)
        assert worker.work(talk) == "committed"
        beginnings.append(either.read(talk).messages[:2])

    assert beginnings[0][1]["role"] == "user"
    # The request that the session began with states them: they stand there, once.
    assert "Do not ever email me. Always use metres." in beginnings[0][1]["content"]
    assert beginnings[0] == beginnings[1] == beginnings[2]
    assert [text.removeprefix("Hi. ") for text in texts(either)] == [
        "Do not ever email me.",
        "Always use metres.",
    ]


def test_what_the_user_said_stands_in_a_context_while_no_worker_runs(either: Surface) -> None:
    said = {1: "Sort my invoices.", 3: "Never email me.", 80: "Use metres.", 200: "Skip Sundays."}
    either.open("s", Policy(max_tokens=2000), "You are terse.")
    looked = {"role": "tool", "tool_call_id": "c", "content": "a row of numbers " * 20}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    other = [asked, looked]
    either.push_many(
        ("s", {"role": "user", "content": said[seq]} if seq in said else other)
        for seq in range(1, 301)
    )

    read = either.read("s")

    assert read.projection is not None
    assert read.tokens <= 2000
    lines = str(read.messages[1]["content"]).splitlines()
    assert lines[1:-1] == [f"(turn {seq}) {text}" for seq, text in said.items()]
    assert len([m for m in read.messages if m["role"] == "tool"]) < 20


def test_a_revoked_rule_is_gone_at_once_and_leaves_with_the_next_compaction(
    either: Surface, worker: Worker, redis_client: redis.Redis, talk: str
) -> None:
    either.push_many([(talk, LONG)] * 8)
    worker.work(talk)

    Handle(either).revoke("1")

    assert texts(either) == ["Always use metres."]
    either.push_many([(talk, LONG)] * 8)
    assert worker.work(talk) == "committed"
    raw: Any = redis_client
    kept = StoredContext.parse(raw.get(worker.keys(talk).context))
    assert [rule.text for rule in kept.rules] == ["Always use metres."]


def test_an_instruction_is_a_rule_as_a_whole(either: Surface, worker: Worker, talk: str) -> None:
    pushed = Handle(either).instruct("Sundays are sacred. The cat comes first.")

    assert either.rules(talk)[-1].id == str(pushed.seq)
    either.push_many([(talk, LONG)] * 12)
    assert worker.work(talk) == "committed"
    assert texts(either)[-1] == "Sundays are sacred. The cat comes first."


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("text", ["", " \n", "x" * 1_001])
def test_what_is_no_instruction_is_refused(either: Surface, text: str) -> None:
    with pytest.raises(InvalidInput, match="1,000 characters"):
        Handle(either).instruct(text)


@pytest.mark.usefixtures("talk")
def test_a_rule_nobody_laid_down_cannot_be_revoked(either: Surface) -> None:
    with pytest.raises(InvalidInput, match="in force"):
        Handle(either).revoke("2")


def test_an_unknown_session_has_no_rules(either: Surface) -> None:
    with pytest.raises(UnknownSession):
        either.rules("nobody")


def test_the_record_of_a_compaction_counts_rules(
    either: Surface, worker: Worker, redis_client: redis.Redis, talk: str
) -> None:
    either.push_many([(talk, LONG)] * 8)
    worker.work(talk)

    raw: Any = redis_client
    [(_, entry)] = raw.xrange(worker.keys(talk).compactions)

    assert b'"rules_added":2' in entry[b"record"]
