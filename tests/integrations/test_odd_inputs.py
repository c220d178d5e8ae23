"""What models and tools now and then really send, through every framework: the agent goes on."""

from __future__ import annotations

import base64
import json
import sys
from contextlib import suppress
from typing import Any

import pytest

from tests.integrations.scripted import JsonMessage, Said, ScriptedModel, question, text, texts
from tests.integrations.test_every_framework import framework, model, process, pytestmark
from turnmill import AsyncContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations as violations_in

__all__ = ["framework", "model", "pytestmark"]

CSV = "data:text/csv;base64," + base64.b64encode(b"1,2\n" * 500).decode()
ASK = ("c1", "find_ship", {"ship": "S1"})
SAYS: dict[str, Said] = {
    "one id twice": Said("", (ASK, ("c1", "find_ship", {"ship": "S2"}))),
    "id of an earlier turn": Said("", (ASK,)),
    "cut arguments": Said("", (("c1", "find_ship", '{"ship": '),)),
    "no arguments": Said("", (("c1", "find_ship", ""),)),
    "a list as arguments": Said("", (("c1", "find_ship", "[1]"),)),
    "null as arguments": Said("", (("c1", "find_ship", "null"),)),
    "long arguments": Said("", (("c1", "find_ship", {"ship": "S1", "why": "x " * 200_000}),)),
    "half a surrogate in arguments": Said("", (("c1", "find_ship", '{"ship": "S1\\ud800"}'),)),
    "strange id": Said("", (("id/1 \u00e4", *ASK[1:]),)),
    "no id": Said("", (("", *ASK[1:]),)),
    "no name": Said("", (("c1", "", {"ship": "S1"}),)),
    "nothing": Said(),
    "a refusal": Said(refusal="I cannot."),
    "NUL": Said("a\x00b"),
}
FOUND = {
    "half a surrogate": "a\ud800b",
    "NUL and escapes": "a\x00\x1b[31mb",
    "nothing at all": "",
    "a data URL": CSV,
    "null": "null",
    "JSON": '{"result": [1, null]}',
    "JSON too deep for any reader": "[" * 5000 + "]" * 5000,
}
FROM_ELSEWHERE: dict[str, list[JsonMessage]] = {
    "a custom tool's call": [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "k", "type": "custom", "custom": {"name": "sh", "input": "uname -a"}}
            ],
        },
        {"role": "tool", "tool_call_id": "k", "content": "Linux"},
    ],
    "items of Responses": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "k", "name": "sh", "arguments": '{"a": "uname -a"}'},
        {"type": "function_call_output", "call_id": "k", "output": "Linux"},
    ],
    "blocks of Anthropic": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "k", "name": "sh", "input": {"a": "uname -a"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "k", "content": "Linux"}],
        },
    ],
    "a refusal among texts": [
        {"role": "user", "content": "uname -a"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Linux"}, {"type": "refusal", "refusal": "No."}],
        },
    ],
}
"""What another program may push into the session."""


async def goes_on(
    framework: Any, url: str, namespace: str, model: ScriptedModel, odd: Said
) -> None:
    """Two questions with an odd answer each, and one more: all that is sent can be read."""

    def script(messages: list[JsonMessage]) -> Said:
        newest = messages[-1]
        return odd if newest["role"] == "user" and "Thanks" not in text(newest) else Said("Fine.")

    model.script = script
    async with process(framework, url, model, namespace=namespace) as agent:
        for number in (1, 2):
            with suppress(Exception):  # some frameworks raise for what a model said
                await agent.ask(question(number))
        await agent.ask("Thanks")
        failed, session = agent.failed(), agent.session
    assert failed == 0
    assert question(2) in texts(model.requests[-1])
    for shown in model.requests:
        # The steps of a run are the framework's own in LlamaIndex.
        assert violations(shown) == [] or shown[-1]["role"] != "user"
    async with AsyncContextClient(url, namespace=namespace) as client:
        context = await client.read(session)
    for dialect in DIALECTS:
        messages = context.messages_for(dialect)
        json.dumps(messages, ensure_ascii=False).encode()
        assert violations_in(messages, dialect) == []


@pytest.mark.parametrize("says", SAYS)
async def test_an_agent_goes_on_whatever_its_model_says(
    framework: Any, redis_server: EmbeddedRedis, namespace: str, model: ScriptedModel, says: str
) -> None:
    await goes_on(framework, redis_server.url, namespace, model, SAYS[says])


@pytest.mark.parametrize("found", FOUND)
async def test_an_agent_goes_on_whatever_its_tool_returns(
    framework: Any,
    redis_server: EmbeddedRedis,
    namespace: str,
    model: ScriptedModel,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if framework.__module__.endswith("pydantic_ai") and found == "half a surrogate":
        pytest.skip("pydantic-ai cannot write such a history as JSON")
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.integrations.") and hasattr(module, "lying"):
            monkeypatch.setattr(module, "lying", lambda _: FOUND[found])

    await goes_on(framework, redis_server.url, namespace, model, Said("", (ASK,)))


@pytest.mark.parametrize("pushed", FROM_ELSEWHERE)
async def test_an_agent_goes_on_with_what_another_program_pushed(
    framework: Any, redis_server: EmbeddedRedis, namespace: str, model: ScriptedModel, pushed: str
) -> None:
    if framework.__module__.endswith("langchain"):
        pytest.skip("a history that lacks it goes on in a fork, without it")
    model.script = lambda _: Said("Fine.")
    async with process(framework, redis_server.url, model, namespace=namespace) as agent:
        await agent.ask(question(1))
        async with AsyncContextClient(redis_server.url, namespace=namespace) as client:
            await client.push(agent.session, FROM_ELSEWHERE[pushed])
        await agent.ask(question(2))
        assert agent.failed() == 0
    asked = json.dumps(model.requests[-1])
    assert violations(model.requests[-1]) == []
    assert "uname -a" in asked
    assert "Linux" in asked
