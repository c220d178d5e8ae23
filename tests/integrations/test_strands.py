"""A Strands agent whose messages are a session's context; its own OpenAI client, over real HTTP."""

from __future__ import annotations

import pytest

pytest.importorskip("strands")

from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager

from tests.integrations.scripted import Said, serving
from tests.integrations.strands_agents import (
    PROMPT,
    SMALL,
    agent_of,
    clerk,
    question,
    settled,
    text,
)
from turnmill import ContextClient
from turnmill.contract.legality import violations
from turnmill.integrations.strands import TurnmillConversationManager, is_made
from turnmill_worker.tokens import count_request, counter_for

JsonMessage = dict[str, Any]


def test_a_long_chat_with_tools_stays_within_its_limit(agents: ContextClient) -> None:
    manager = TurnmillConversationManager(agents, "ann", policy=SMALL)
    with serving(clerk) as model:
        agent = agent_of(model, manager)
        for number in range(1, 31):
            agent(question(number))
            if number % 5 == 0:
                settled(agents, "ann")

    info = agents.info("ann")
    assert info.compactions >= 3
    assert manager.counts.failed == manager.counts.cleared == 0
    assert manager.counts.pushed == info.last_seq == 120
    assert len(model.requests) == 60
    assert info.tools_tokens > 0
    for at, request in enumerate(model.requests):
        assert violations(request) == []
        assert count_request(counter_for(), request) + info.tools_tokens <= info.limits.hard
        assert request[0] == {"role": "system", "content": PROMPT}
        assert any(question(at // 2 + 1) in text(message) for message in request)
    assert question(1) not in map(text, model.requests[-1])
    assert 0 < manager.removed_message_count < 120
    assert len(agent.messages) < 40


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


def test_a_streamed_answer_comes_in_pieces_and_is_pushed_once(client: ContextClient) -> None:
    pieces: list[str] = []

    def seen(**event: Any) -> None:
        pieces.extend([event["data"]] if "data" in event else [])

    manager = TurnmillConversationManager(client, "ann")
    with serving(lambda _: Said("It lies at pier one.")) as model:
        agent = agent_of(model, manager)
        agent.callback_handler = seen
        agent("Where?")

    assert len(pieces) > 2
    assert [text(m) for m in client.read("ann").messages[1:]] == ["Where?", "It lies at pier one."]


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


def test_a_new_agent_goes_on_with_the_session(client: ContextClient) -> None:
    with serving(clerk) as model:
        agent_of(model, TurnmillConversationManager(client, "ann"))(question(1))
        second = TurnmillConversationManager(client, "ann")
        agent = agent_of(model, second)
        agent(question(2))

    assert question(1) in map(text, model.requests[-1])
    assert violations(model.requests[-1]) == []
    assert second.counts.pushed == 4
    assert second.removed_message_count == 0


def test_two_agents_take_turns_in_one_session(client: ContextClient) -> None:
    managers = [TurnmillConversationManager(client, "ann") for _ in range(2)]
    with serving(clerk) as model:
        pair = [agent_of(model, manager) for manager in managers]
        for number in range(1, 7):
            pair[number % 2](question(number))

    assert client.info("ann").last_seq == 24
    assert [m.counts.failed + m.counts.cleared for m in managers] == [0, 0]
    assert [sum(question(n) == t for t in map(text, model.requests[-1])) for n in range(1, 7)] == (
        [1] * 6
    )
    assert all(violations(request) == [] for request in model.requests)


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
