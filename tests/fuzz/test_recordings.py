"""A conversation as `make fuzz-recordings` plays folders of them, and that it can fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.compactions import Player
from tests.fuzz.recordings import Pushed, replay, turns_of, unsaid
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.dialects.convert import DIALECTS
from turnmill_cli.conversations import Conversation, load
from turnmill_cli.promises import TokenCache


def call(name: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"text": "the whole file " * 60})}
    return {"id": name, "type": "function", "function": function}


def day(at: int) -> list[dict[str, Any]]:
    ids = [f"call_{at}", "again"]
    return [
        {"role": "user", "content": f"Where is parcel {at}? I asked on Monday. " * 12},
        {"role": "assistant", "content": None, "tool_calls": list(map(call, ids))},
        *({"role": "tool", "tool_call_id": each, "content": "a row\n\n" * 90} for each in ids),
        {"role": "assistant", "content": f"It is at door {at * 7}."},
    ]


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    prompt = {"role": "system", "content": "You carry parcels. " * 90}
    line = json.dumps({"messages": [prompt, *(message for at in range(12) for message in day(at))]})
    (tmp_path / "recorded.jsonl").write_text(line)
    [found] = load(tmp_path.glob("*"))
    return found


@pytest.fixture
def player(redis_server: EmbeddedRedis) -> Iterator[Player]:
    with closing(Player(redis_server.url.removesuffix("/0") + "/8")) as made:
        yield made


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_recorded_conversation_is_valid_and_whole_in_each_dialect(
    player: Player, conversation: Conversation, dialect: str
) -> None:
    replay(player, conversation, dialect)

    assert player.tally.faults == {}
    assert player.tally.turns == len(list(turns_of(conversation, dialect)))
    assert player.tally.contexts == player.tally.turns + player.tally.compactions.total()
    assert player.tally.compactions.total() > 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_that_is_missing_or_unsaid_is_noticed(
    client: ContextClient, conversation: Conversation, dialect: str
) -> None:
    client.open("s", Policy(dialect=dialect), conversation.system_prompt)
    pushed = Pushed(conversation.system_prompt, TokenCache(lambda _: 0))
    for turn in list(turns_of(conversation, dialect))[:4]:
        client.push("s", turn)
        pushed.add(turn)
    context = client.read("s")

    chat = context.messages_for("chat")
    lacking = replace(context, messages=[*chat[:-1], chat[-2]], chat=[*chat[:-1], chat[-2]])

    assert list(pushed.missing(context, Policy())) == list(unsaid(context)) == []
    assert any("missing" in each for each in pushed.missing(lacking, Policy()))
