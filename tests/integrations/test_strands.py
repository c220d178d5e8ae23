"""A Strands agent whose messages are a session's context; its own OpenAI client, over real HTTP."""

from __future__ import annotations

import pytest

pytest.importorskip("strands")

from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from tests.integrations.scripted import Overflow, Said, huge, question, serving
from tests.integrations.strands_agents import (
    SMALL,
    agent_of,
    clerk,
    said_in,
    text,
)
from tests.specifications.agents import settled
from turnmill import ContextClient, Policy
from turnmill.contract.legality import violations
from turnmill.integrations.strands import TurnmillConversationManager, from_chat, is_made, to_chat
from turnmill_worker.tokens import count_request, counter_for

JsonMessage = dict[str, Any]


def test_what_is_word_for_word_is_the_very_message_it_was(agents: ContextClient) -> None:
    manager = TurnmillConversationManager(agents, "ann", policy=SMALL)
    with serving(clerk) as model:
        agent = agent_of(model, manager)
        for number in range(1, 9):
            agent(question(number))
        settled(agents, "ann")
        before = list(agent.messages)
        manager.apply_management(agent)

    assert is_made(agent.messages[0])
    own = [message for message in agent.messages if not is_made(message)]
    assert own
    assert all(any(message is each for each in before) for message in own)
    assert "usage" in own[-1]["metadata"]


def test_the_same_messages_again_push_nothing_twice(client: ContextClient) -> None:
    with serving(clerk) as model:
        manager = TurnmillConversationManager(client, "ann")
        agent = agent_of(model, manager)
        agent(question(1))
        for _ in range(3):
            manager.apply_management(agent)
        later = TurnmillConversationManager(client, "ann")
        agent_of(model, later, messages=list(agent.messages))(question(2))

    assert manager.counts.pushed == later.counts.pushed == 4
    assert client.info("ann").last_seq == 8


def test_messages_without_ids_are_the_same_turns_in_every_process(client: ContextClient) -> None:
    stored = [
        {"role": "user", "content": [{"text": "Where is S7?"}]},
        {"role": "assistant", "content": [{"text": "At pier 7."}]},
    ]
    with serving(clerk) as model:
        for _ in range(2):
            manager = TurnmillConversationManager(client, "ann")
            copies: Any = [dict(message) for message in stored]
            manager.apply_management(agent_of(model, manager, messages=copies))

    assert client.info("ann").last_seq == 2


def test_an_agent_is_restored_from_strands_own_session(
    agents: ContextClient, tmp_path: Path
) -> None:
    with serving(clerk) as model:

        def restored() -> tuple[Agent, TurnmillConversationManager]:
            manager = TurnmillConversationManager(agents, "ann", policy=SMALL)
            stored = FileSessionManager("s1", storage_dir=str(tmp_path))
            return agent_of(model, manager, session_manager=stored, agent_id="a"), manager

        agent, manager = restored()
        for number in range(1, 13):
            agent(question(number))
        settled(agents, "ann")
        agent(question(13))
        shown = list(agent.messages)

        again, later = restored()
        assert again.messages == shown
        again(question(14))

    assert manager.removed_message_count > 0
    assert later.counts.pushed == 4
    assert later.counts.failed == later.counts.cleared == 0
    assert agents.info("ann").last_seq == 56
    assert violations(model.requests[-1]) == []


def test_an_interrupted_run_goes_on_where_it_was(client: ContextClient) -> None:
    @tool(context=True)
    def pay(ship: str, tool_context: Any) -> str:
        """Pay for a ship.

        Args:
            ship: its name.
        """
        return f"{ship}: {tool_context.interrupt('approve', reason=ship)}"

    def asks(messages: list[JsonMessage]) -> Said:
        if messages[-1]["role"] == "user":
            return Said(calls=(("c1", "pay", {"ship": "S1"}),))
        return Said(text(messages[-1]))

    manager = TurnmillConversationManager(client, "ann")
    with serving(asks) as model:
        agent = agent_of(model, manager)
        agent.tool_registry.process_tools([pay])
        stopped = agent("Pay S1")
        assert stopped.stop_reason == "interrupt"
        assert [message["role"] for message in agent.messages] == ["user", "assistant"]
        asked: Any = stopped.interrupts
        answer: Any = [{"interruptResponse": {"interruptId": asked[0].id, "response": "yes"}}]
        done = agent(answer)

    assert "S1: yes" in str(done)
    assert manager.counts.failed == manager.counts.cleared == 0
    assert client.info("ann").last_seq == 4
    assert violations(client.read("ann").messages) == []


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


def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    client: ContextClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = TurnmillConversationManager(client, "ann", policy=SMALL)
    with serving(clerk) as model:
        agent = agent_of(model, manager)
        with monkeypatch.context() as patched:
            patched.setattr("tests.integrations.strands_agents.lying", huge)
            agent(question(1))
        agent(question(2))

    info = client.info("ann")
    assert manager.counts.failed == manager.counts.cleared == 0
    assert info.last_seq == 8
    assert len(model.requests) == 4
    for request in model.requests:
        assert violations(request) == []
        assert count_request(counter_for(), request) + info.tools_tokens <= info.limits.hard
    assert "characters removed" in str(model.requests[1])
    assert question(2) in "".join(map(text, model.requests[-1]))


def test_a_message_that_was_edited_while_its_process_was_away_begins_the_session_anew(
    client: ContextClient,
) -> None:
    with serving(lambda _: Said("It lies at pier one.")) as model:
        manager = TurnmillConversationManager(client, "ann", policy=SMALL)
        first = agent_of(model, manager)
        first("Where?")
        manager.apply_management(first)
        messages = [{**message} for message in first.messages]
        messages[0]["content"] = [{"text": "Where now?"}]
        again = TurnmillConversationManager(client, "ann", policy=SMALL)
        agent_of(model, again, messages=messages)("Thanks")

    assert again.counts.failed == 0
    assert again.counts.cleared == 1
    assert [text(message) for message in model.requests[-1][1:]] == [
        "Where now?", "It lies at pier one.", "Thanks",
    ]  # fmt: skip
