"""LlamaIndex agents and chat engines whose memory is a session; their models over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.workflow import Context, JsonSerializer
from workflows.errors import WorkflowCancelledByUser

from tests.integrations.llama_index_agents import (
    agent,
    example,
)
from tests.integrations.scripted import (
    PROMPT,
    JsonMessage,
    Said,
    ScriptedModel,
    clerk,
    huge,
    lying,
    question,
    serving,
    texts,
)
from turnmill import AsyncContextClient, ContextClient, InvalidInput, Policy
from turnmill.contract.legality import violations
from turnmill.integrations.llama_index import ContextFunctionAgent, ContextMemory
from turnmill_worker.tokens import count_request, counter_for

# LlamaIndex looks at all attributes of an agent, those that pydantic deprecates too.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
)

LIMIT = 2000
SMALL = Policy(max_tokens=LIMIT, reserved_tokens=500, quality_threshold=0.0)
"""Room is kept for the system prompt and the steps of a run, which LlamaIndex adds itself."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield running


def test_a_chat_engine_goes_on_in_another_process(
    agents: ContextClient, model: ScriptedModel
) -> None:
    model.script = lambda shown: Said(f"{len(shown)} messages")

    def engine() -> SimpleChatEngine:
        memory = ContextMemory.from_defaults("ann", client=agents)
        return SimpleChatEngine.from_defaults(llm=example.Chat(), memory=memory)

    assert str(engine().chat("Hello")) == "1 messages"
    later = engine()

    assert str(later.chat("Hello again")) == "3 messages"
    assert [message.content for message in later.chat_history] == [
        "Hello", "1 messages", "Hello again", "3 messages",
    ]  # fmt: skip
    later.reset()
    assert later.chat_history == []
    assert str(later.chat("Anew")) == "1 messages"


async def test_the_steps_of_a_run_that_is_cancelled_are_not_told(
    agents: ContextClient, async_agents: AsyncContextClient, model: ScriptedModel
) -> None:
    memory = ContextMemory.from_defaults("ann", client=async_agents)
    handler = agent().run(question(1), memory=memory)
    async for _ in handler.stream_events():
        if model.requests:
            break
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler

    await agent().run(question(2), memory=memory)

    assert violations(agents.read("ann").messages) == []
    assert question(1) in texts(model.requests[-1])


async def test_a_memory_is_serialized_with_the_state_of_a_workflow(
    async_agents: AsyncContextClient, model: ScriptedModel
) -> None:
    memory = ContextMemory.from_defaults("ann", client=async_agents)
    made = agent()
    state = Context(made)
    await made.run(question(1), ctx=state, memory=memory)
    stored = state.to_dict(serializer=JsonSerializer())

    later = Context.from_dict(made, stored, serializer=JsonSerializer())
    with pytest.raises(InvalidInput, match="call connect"):
        await made.run(question(2), ctx=later)
    ContextMemory.connect(async_agents)
    try:
        await made.run(question(2), ctx=Context.from_dict(made, stored))
    finally:
        ContextMemory.connect(None)

    assert question(1) in texts(model.requests[-1])
    assert len(await memory.aget()) == 10


async def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    client: ContextClient, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ContextMemory.from_defaults("ann", client=client, policy=SMALL)
    with monkeypatch.context() as patched:
        patched.setattr("tests.integrations.llama_index_agents.lying", huge)
        await agent().run(question(1), memory=memory)
    await agent().run(question(2), memory=memory)

    assert memory.failed == 0
    assert len(model.requests) == 4
    for shown in model.requests[2:]:  # LlamaIndex adds the steps of a run itself
        assert count_request(counter_for(), shown) <= LIMIT
        assert violations(shown) == []
    assert question(2) in texts(model.requests[-1])


async def test_each_call_of_a_long_run_gets_a_context_that_fits(
    agents: ContextClient,
    async_agents: AsyncContextClient,
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also right after a result that is larger than a turn may be."""

    def looks_many_up(messages: list[JsonMessage]) -> Said:
        step = len(model.requests)
        if messages[-1]["role"] == "user" or step % 20:
            return Said("", ((f"call-{step}", "find_ship", {"ship": f"S{step}"}),))
        return Said("All are there.")

    monkeypatch.setattr(
        "tests.integrations.llama_index_agents.lying",
        lambda ship: (huge if ship == "S2" else lying)(ship),
    )
    model.script = looks_many_up
    memory = ContextMemory.from_defaults("ann", client=async_agents, policy=SMALL)

    for _ in range(2):
        handler = agent(ContextFunctionAgent).run(question(1), memory=memory, max_iterations=50)
        assert str(await handler) == "All are there."

    assert memory.failed == 0
    assert "characters removed" in texts(model.requests[2])
    for shown in model.requests:
        assert count_request(counter_for(), shown) <= LIMIT
        assert violations(shown) == []
        assert shown[0] == {"role": "system", "content": PROMPT}
    assert len(model.requests) == 40
    assert agents.info("ann").last_seq == len(agents.trajectory("ann").turns) == 2 * 40
