"""A session speaks its provider's dialect, before and after real compactions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.processes import wait_until
from tests.worker.harness import SMALL, settled
from turnmill import Context, ContextClient, Policy
from turnmill.dialects.legality import violations

pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("worker")]

Json = dict[str, Any]


def thinking(at: int) -> Json:
    return {"type": "thinking", "thinking": f"Look into file {at}. " * 8, "signature": f"s{at}=="}


def anthropic_turns(steps: int) -> list[Json]:
    """A user's task, then an agent that looks into one file after the other."""
    turns: list[Json] = [{"role": "user", "content": "Find who changed ORDER-7741 and why."}]
    for at in range(steps):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read_log", "input": {"part": at}}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{at}",
            "content": [{"type": "text", "text": f"Part {at}: user u-{at * 37} set it to {at}."}],
        }
        turns += [
            {"role": "assistant", "content": [thinking(at), call]},
            {"role": "user", "content": [result]},
        ]
    return turns


def responses_turns(steps: int) -> list[list[Json]]:
    """The same work as Responses items."""
    turns: list[list[Json]] = [[{"role": "user", "content": "Find who changed ORDER-7741, why."}]]
    for at in range(steps):
        call_id = f"call_{at}"
        called = {"name": "read_log", "arguments": json.dumps({"part": at})}
        said = f"Part {at}: user u-{at * 37} set it to {at}."
        turns += [
            [
                {"type": "reasoning", "id": f"rs{at}", "summary": [], "encrypted_content": "x9"},
                {"type": "function_call", "call_id": call_id, **called},
            ],
            [{"type": "function_call_output", "call_id": call_id, "output": said}],
        ]
    return turns


def compacted(client: ContextClient, session: str, turns: list[Any], policy: Policy) -> Context:
    client.open(session, policy, system_prompt="You read logs.")
    for turn in turns:
        client.push(session, turn)
    wait_until(lambda: settled(client, session, turns=len(turns)))
    return client.read(session)


def test_a_session_of_the_messages_api_stays_one(client: ContextClient) -> None:
    turns = anthropic_turns(60)

    found = compacted(client, "claude", turns, SMALL)

    assert found.version > 0
    assert found.dialect == "anthropic"
    assert violations(found.messages, "anthropic") == []
    tail = [message for message in found.messages if message in turns]
    assert len(tail) >= 2, "the newest turns come back as they were, signatures and all"
    assert "read_log" in found.summary, "what was called is summarized, not types of blocks"
    assert "tool_" not in found.summary
    asked = found.request_for()
    assert asked == {"messages": found.messages, "system": "You read logs."}
    for dialect in ("chat", "responses"):
        assert violations(found.messages_for(dialect), dialect) == []


def test_a_session_of_the_responses_api_stays_one(client: ContextClient) -> None:
    turns = responses_turns(60)

    found = compacted(client, "gpt", turns, SMALL)

    assert found.version > 0
    assert found.dialect == "responses"
    assert violations(found.messages, "responses") == []
    assert found.messages[-1] == turns[-1][0]
    assert found.messages[-3:-1] == turns[-2]
    assert found.request_for() == {"input": found.messages, "instructions": "You read logs."}


def test_the_policy_chooses_the_dialect_where_nothing_tells(client: ContextClient) -> None:
    client.open("chosen", Policy(dialect="anthropic"), system_prompt="Be brief.")
    client.push("chosen", {"role": "user", "content": "Hi"})

    found = client.read("chosen")

    assert found.request_for() == {
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert found.request_for("chat")["messages"][0] == {"role": "system", "content": "Be brief."}
