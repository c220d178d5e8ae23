"""Strands agents when something goes wrong, and messages that cannot be told as they are."""

from __future__ import annotations

import pytest

pytest.importorskip("strands")

import logging
from pathlib import Path
from typing import Any

from strands.types.exceptions import ContextWindowOverflowException

from tests.integrations.scripted import Overflow, Said, serving
from tests.integrations.strands_agents import (
    SMALL,
    agent_of,
    clerk,
    question,
    said_in,
    settled,
    text,
)
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.integrations.strands import TurnmillConversationManager, from_chat, to_chat
from turnmill_worker.tokens import count_request, counter_for

JsonMessage = dict[str, Any]


def test_after_an_overflow_the_limit_is_lowered_and_the_model_asked_again(
    client: ContextClient,
) -> None:
    def narrow(messages: list[JsonMessage]) -> Said:
        if count_request(counter_for(), messages) > 900:
            raise Overflow
        return clerk(messages)

    manager = TurnmillConversationManager(client, "ann", policy=Policy(max_tokens=4000))
    with serving(narrow) as model:
        agent = agent_of(model, manager)
        for number in range(1, 13):
            assert "Anna pays" in str(agent(question(number)))

    assert manager.counts.lowered > 0
    assert client.info("ann").limits.hard < 4000
    assert all(violations(request) == [] for request in model.requests)


def test_a_context_that_cannot_become_smaller_is_told_to_the_agent(client: ContextClient) -> None:
    def refusing(_: list[JsonMessage]) -> Said:
        raise Overflow

    manager = TurnmillConversationManager(client, "ann")
    with (
        serving(refusing) as model,
        pytest.raises(ContextWindowOverflowException),
    ):
        agent_of(model, manager)(question(1))
    assert len(model.requests) < 10


def test_messages_taken_away_begin_the_session_anew(client: ContextClient) -> None:
    manager = TurnmillConversationManager(client, "ann")
    with serving(clerk) as model:
        agent = agent_of(model, manager)
        agent(question(1))
        agent(question(2))
        del agent.messages[4:]
        agent(question(3))
        assert not any(question(2) in text(message) for message in model.requests[-1])
        assert question(1) in map(text, model.requests[-1])
        agent.messages.clear()
        agent(question(4))

    assert [m["role"] for m in model.requests[-1]] == ["system", "user", "assistant", "tool"]
    assert manager.counts.cleared == 2
    assert manager.counts.failed == 0


def test_a_session_lost_with_redis_is_told_anew(agents: ContextClient) -> None:
    manager = TurnmillConversationManager(agents, "ann", policy=SMALL)
    with serving(clerk) as model:
        agent = agent_of(model, manager)
        for number in range(1, 9):
            agent(question(number))
        settled(agents, "ann")
        manager.apply_management(agent)
        summary = said_in(agent.messages)[0]
        agents.forget("ann")
        agent(question(9))

    # A read that comes before workers have counted may show less than was told.
    told = agents.trajectory("ann").turns
    assert summary in " ".join(text(message) for turn in told for message in turn.messages)
    assert manager.counts.failed == 0
    assert violations(model.requests[-1]) == []


def test_while_redis_is_down_the_model_gets_the_messages_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedRedis(tmp_path, durable=False) as server:
        url = server.url
    with (
        ContextClient(url, timeout_s=0.2, broker=SilentWaker()) as client,
        serving(clerk) as model,
        caplog.at_level(logging.WARNING, logger="turnmill"),
    ):
        manager = TurnmillConversationManager(client, lambda _: "ann", policy=SMALL)
        done = agent_of(model, manager)(question(1))

    assert "It lies at pier" in str(done)
    assert manager.counts.failed == 3
    assert {
        record.message for record in caplog.records if record.name.startswith("turnmill.i")
    } == {"messages left as they are: StoreUnavailable"}


def test_images_errors_and_json_of_tools_come_back() -> None:
    image: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    result: Any = {
        "toolUseId": "c1",
        "status": "error",
        "content": [{"json": {"at": 1}}, image, {"document": {"name": "x"}}],
    }
    said: Any = [
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}],
        },
        {"role": "user", "content": [{"toolResult": result}, {"text": "And now?"}]},
    ]

    made = from_chat([message for each in said for message in to_chat(each)])

    assert [message["content"] for message in made] == [
        said[0]["content"],
        [
            {
                "toolResult": {
                    **result,
                    "content": [{"text": '{"at": 1}'}, image, {"text": "[document, not kept]"}],
                }
            },
            {"text": "And now?"},
        ],
    ]
