"""A few of the conversations that ``python -m tests.fuzz.odd`` plays by the thousand."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz.odd import AGENTS, Player, unfit
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

Q = {"role": "user", "content": "q"}


@pytest.mark.parametrize("dialect", AGENTS)
def test_what_is_accepted_leaves_as_each_provider_takes_it(
    redis_server: EmbeddedRedis, dialect: str
) -> None:
    with closing(Player(redis_server.url.removesuffix("/0") + "/9")) as player:
        for seed in range(1, 16):
            player.play(dialect, seed)

    assert player.faults == {}
    assert player.contexts > 0
    assert player.refused.total() > 0


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"role": "assistant", "content": None}, "nothing said"),
        ({"role": "assistant", "content": "a", "tool_calls": []}, "an empty list"),
        ({"role": "user", "content": "a", "colour": "red"}, "fields"),
        ({"role": "user", "content": "a\ud800"}, "no UTF-8"),
        ({"role": "tool", "tool_call_id": "a", "content": "1"}, "without its call"),
    ],
)
def test_what_a_provider_would_not_take_is_noticed(
    client: ContextClient, message: Any, fault: str
) -> None:
    client.push("s", Q)
    context = client.read("s")

    assert list(unfit(context)) == []
    assert fault in "".join(unfit(replace(context, messages=[*context.messages, message])))
