"""Calls that stay open while hundreds of turns pass: shown, answerable late, once."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.redis.conftest import Connect, Surface, Worker
from turnmill import Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.image_tokens import DEFAULT_FORMULA
from turnmill.contract.legality import NO_RESULT, UNKNOWN_CALL
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations
from turnmill.read.context import Context
from turnmill_worker.tokens import counter_for

Json = dict[str, Any]
COUNTER = counter_for("o200k_base", DEFAULT_FORMULA)


def call(name: str, *ids: str, task: str = "") -> Json:
    function = {"name": name, "arguments": json.dumps({"task": task})}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def said(number: int) -> Json:
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": f"Parcel {number} goes to door {number * 7} by noon."}


def looked(client: Surface) -> Context:
    """The context, which every provider would take, and of which no token is missed."""
    context: Context = client.read("s")
    for dialect in DIALECTS:
        assert violations(context.messages_for(dialect), dialect) == []
    if context.exact:
        assert COUNTER.count_messages(context.messages) <= context.tokens
    return context


def tools_of(context: Context, text: str) -> list[tuple[str, str]]:
    """The tool and the id of each call that is answered with the text."""
    found: list[tuple[str, str]] = []
    names: dict[str, str] = {}
    for message in context.messages:
        names |= {c["id"]: c["function"]["name"] for c in message.get("tool_calls", ())}
        if message["role"] == "tool" and message["content"] == text:
            found.append((names[message["tool_call_id"]], message["tool_call_id"]))
    return found


@pytest.mark.parametrize("strategies", [("rolling", "window"), ("window",), ("iterations",)])
def test_a_call_open_through_three_compactions_is_shown_and_answered_late_once(
    either: Surface, worker: Worker, strategies: tuple[str, ...]
) -> None:
    either.open("s", Policy(max_tokens=2_000, strategies=strategies, quality_threshold=0.0))
    either.push("s", {"role": "user", "content": "Have the northern depot looked through."})
    either.push("s", call("delegate", "c1", task="the northern depot"))
    for number in range(300):
        either.push("s", said(number))
        if number % 20 == 19:
            worker.work("s")
            assert "the northern depot" in str(looked(either).messages)
    assert either.info("s").compactions >= 3
    for dialect in DIALECTS:
        assert "delegate" in str(either.read("s").messages_for(dialect))

    either.push("s", result("c1", "There were nine boxes."))
    assert tools_of(looked(either), "There were nine boxes.") == [("delegate", "c1")]
    worker.pipeline.estimate(worker.ref("s"))
    looked(either)
    either.push("s", said(300))
    either.push("s", result("c1", "There were ten."))

    assert tools_of(looked(either), "There were ten.") == [(UNKNOWN_CALL, "c1")]
    for number in range(301, 420):
        either.push("s", said(number))
    worker.work("s")
    assert "No result yet" not in str(looked(either).messages)


def test_what_is_answered_late_before_it_is_covered_is_its_tools_too(
    either: Surface, connect: Connect, redis_server: EmbeddedRedis, namespace: str
) -> None:
    for turn in (call("delegate", "c1", "c2"), result("c2", "B"), said(0), said(1)):
        either.step("s", turn)
    context = either.step("s", result("c1", "A"))

    assert tools_of(context, "A") == [("delegate", "c1")]
    assert tools_of(context, NO_RESULT) == [("delegate", "c1")]
    whole = connect(redis_server.url, namespace=namespace).read("s")
    assert whole.messages == looked(either).messages == context.messages


class _Open:
    """What the twin of a session knows: calls without a result, by id; the newest last."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.calls: dict[str, tuple[str, str]] = {}
        self.number = 0

    def turns(self) -> list[Json]:
        """What comes next; calls whose results do not come are open from then on."""
        self.number += 1
        number, chance = self.number, self.dice.random()
        if chance < 0.2:
            made = {f"c{number}-{at}": (f"t{number}", f"task {number}") for at in range(2)}
            answered = [name for name in made if self.dice.random() < 0.6]
            self.calls |= {name: made[name] for name in made if name not in answered}
            asked = call(f"t{number}", *made, task=f"task {number}")
            return [asked, *(result(name, "done") for name in answered), said(2 * number)]
        return [said(number)]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_answered_when_contexts_are_legal_and_open_calls_shown(
    either: Surface,
    connect: Connect,
    worker: Worker,
    redis_server: EmbeddedRedis,
    namespace: str,
    seed: int,
) -> None:
    dice = random.Random(seed)
    twin = _Open(dice)
    most = dice.choice([900, 3_000])
    either.open("s", Policy(max_tokens=most, quality_threshold=0.0))
    for _ in range(120):
        for turn in twin.turns():
            either.push("s", turn)
        if len(twin.calls) > 4 or (twin.calls and dice.random() < 0.1):
            name = dice.choice(list(twin.calls))
            tool, _ = twin.calls.pop(name)
            text = f"late {twin.number}"
            either.push("s", result(name, text))
            assert tools_of(looked(either), text) in ([(tool, name)], [(UNKNOWN_CALL, name)])
        if dice.random() < 0.3:
            worker.pipeline.estimate(worker.ref("s"))
        if dice.random() < 0.15:
            worker.work("s")
        context = looked(either)
        whole = connect(redis_server.url, namespace=namespace).read("s")
        assert whole.messages == context.messages
        if context.projection is None and most > 900:  # a tenth of the room is theirs
            assert all(task in str(context.messages) for _, task in twin.calls.values())
    assert either.info("s").compactions >= 1
