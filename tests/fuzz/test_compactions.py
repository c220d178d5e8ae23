"""A few sessions of what `make fuzz-compactions` plays by the thousand, and that it can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz.compactions import AGENTS, SECRET, Player, Sealed
from turnmill import Context, ContextClient
from turnmill.connection.embedded import EmbeddedRedis

THOUGHT = {"type": "thinking", "thinking": "Lyon?", "signature": f"{SECRET}1"}
HIDDEN = {"type": "redacted_thinking", "data": f"{SECRET}2"}
SAID = {"role": "assistant", "content": [THOUGHT, HIDDEN, {"type": "text", "text": "Lyon."}]}
REASONING = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": f"{SECRET}3"}
CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "done"}


@pytest.fixture
def player(redis_server: EmbeddedRedis) -> Iterator[Player]:
    with closing(Player(redis_server.url.removesuffix("/0") + "/8")) as made:
        yield made


@pytest.mark.parametrize("dialect", AGENTS)
def test_contexts_are_valid_and_thoughts_come_back_as_they_were_pushed(
    player: Player, dialect: str
) -> None:
    player.fuzz(dialect, 10, turns=30)

    assert player.tally.faults == {}
    assert player.tally.compactions.total() > 0
    assert player.tally.thoughts > 0 or dialect == "chat"


def read(client: ContextClient, *turns: list[Any]) -> tuple[Context, Sealed]:
    sealed = Sealed()
    for turn in turns:
        client.push("s", turn)
        sealed.add(turn)
    return client.read("s"), sealed


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        ([THOUGHT, HIDDEN], ""),
        ([], ""),
        ([HIDDEN], "missing"),
        ([{**THOUGHT, "thinking": "Nice?"}, HIDDEN], "not as it was"),
        ([{key: THOUGHT[key] for key in reversed(THOUGHT)}, HIDDEN], "not as it was"),
    ],
)
def test_a_thought_that_came_back_otherwise_is_noticed(
    client: ContextClient, blocks: list[Any], fault: str
) -> None:
    context, sealed = read(client, [{"role": "user", "content": "Where to?"}], [SAID])

    shown = {**SAID, "content": [*blocks, {"type": "text", "text": "Lyon."}]}
    found = list(sealed.broken(replace(context, messages=[*context.messages[:-1], shown])))

    assert bool(found) == bool(fault)
    assert fault in "".join(found)


def test_reasoning_apart_from_what_it_led_to_is_noticed(client: ContextClient) -> None:
    asked = {"role": "user", "content": "Go."}
    context, sealed = read(client, [asked], [REASONING, CALL], [OUTPUT])

    alone = replace(context, messages=[asked, CALL, OUTPUT])
    before_another = replace(context, messages=[asked, REASONING, {**CALL, "id": "x"}, OUTPUT])

    assert list(sealed.broken(context)) == []
    assert "has its id, and not the reasoning" in "".join(sealed.broken(alone))
    assert "before another item" in "".join(sealed.broken(before_another))
