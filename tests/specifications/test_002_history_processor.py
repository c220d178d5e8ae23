"""Specification 002 inside pydantic-ai: an agent whose model sees a managed context.

Through Redis and a real Celery worker; the model is pydantic-ai's own ``FunctionModel``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.specifications.agents import settled
from turnmill import AsyncContextClient, ContextClient, Policy
from turnmill.contract.legality import violations
from turnmill.integrations.pydantic_ai import HistoryProcessor, history_processor, to_chat
from turnmill_worker.tokens import count_request, counter_for

MANAGED = "Context summary (managed): "
PROMPT = "You are a harbour clerk."


class Clerk:
    """A model that looks every ship up before it answers, and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        self.shown.append(list(messages))
        newest = messages[-1].parts[-1]
        if isinstance(newest, UserPromptPart):
            ship = str(newest.content).split()[-1].rstrip("?")
            thought = ThinkingPart("I look it up.", signature="s1")
            call = ToolCallPart("find_ship", {"ship": ship}, f"call-{ship}")
            return ModelResponse(parts=[thought, call])
        assert isinstance(newest, ToolReturnPart)
        return ModelResponse(parts=[TextPart(f"It lies at {newest.content}, Anna pays by noon.")])


def clerk(model: Clerk, *processors: HistoryProcessor) -> Agent[None, str]:
    agent = Agent(FunctionModel(model), system_prompt=PROMPT, capabilities=processors)

    @agent.tool_plain
    def find_ship(ship: str) -> str:
        if not ship.startswith("S"):
            raise ModelRetry("a ship's name begins with S")
        return f"pier {int(ship[1:]) % 9} with {ship}: " + "crate of herring, " * 15

    return agent


def question(number: int) -> str:
    return f"Question {number}: where is ship S{number * 71}?"


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    return [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart | SystemPromptPart)
    ]


def views(messages: Sequence[ModelMessage]) -> list[str]:
    return [text for text in prompts(messages) if text.startswith(MANAGED)]


def tokens(messages: Sequence[ModelMessage]) -> int:
    chat = to_chat(messages)
    system = [{"role": "system", "content": part.content} for part in chat.prompts]
    return count_request(counter_for(), [*system, *chat.messages])


async def test_a_long_chat_with_tools_stays_within_its_limit(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    policy = Policy.managed(max_tokens=1800, recent_runs=4, passthrough_runs=2)
    history = history_processor(async_agents, "ann", policy=policy)
    model = Clerk()
    agent = clerk(model, history)
    said: list[ModelMessage] = []

    for number in range(1, 41):
        said = (await agent.run(question(number), message_history=said)).all_messages()
        if number % 4 == 0:
            settled(agents, "ann")

    assert history.counts.failed == 0
    assert len(model.shown) == 80
    info = agents.info("ann")
    assert info.tools_tokens > 0
    for at, shown in enumerate(model.shown):
        assert tokens(shown) + info.tools_tokens <= info.limits.hard
        assert violations(to_chat(shown).messages) == []
        assert question(at // 2 + 1) in "\n".join(prompts(shown))
        assert prompts(shown)[0] == PROMPT
        assert prompts(shown).count(PROMPT) == 1
        assert len(views(shown)) <= 1
    assert views(model.shown[-1])
    assert question(1) not in prompts(model.shown[-1])


async def test_the_agents_own_history_stays_complete_and_nothing_is_pushed_twice(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    policy = Policy.managed(recent_runs=2, passthrough_runs=1)
    history = history_processor(async_agents, "ann", policy=policy)
    agent = clerk(Clerk(), history)
    said: list[ModelMessage] = []
    for number in range(1, 7):
        said = (await agent.run(question(number), message_history=said)).all_messages()
        settled(agents, "ann")

    trajectory = agents.trajectory("ann")
    told = [message for turn in trajectory.turns for message in turn.messages]

    # What the last answer was is pushed with the next request.
    assert told == to_chat(said).messages[:-1]
    assert history.counts.pushed == 23
    assert [p for p in prompts(said) if p != PROMPT] == [question(n) for n in range(1, 7)]
    assert not views(said)


async def test_the_same_history_is_curated_once(async_agents: AsyncContextClient) -> None:
    history = history_processor(async_agents, "ann")
    said = [ModelRequest(parts=[UserPromptPart(question(1))])]

    first = await history.curate(said)
    second = await history.curate(said)

    assert first == second == said
    assert (history.counts.curated, history.counts.cached, history.counts.pushed) == (2, 1, 1)


async def test_a_rewound_history_is_sent_as_it_is(async_agents: AsyncContextClient) -> None:
    history = history_processor(async_agents, "ann")
    first = ModelRequest(parts=[UserPromptPart(question(1))])
    answer = ModelResponse(parts=[TextPart("pier 1")])
    await history.curate([first, answer, ModelRequest(parts=[UserPromptPart(question(2))])])

    assert await history.curate([first]) == [first]
    assert history.counts.diverged == 1


async def test_a_run_that_failed_is_repeated_without_a_double(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    history = history_processor(async_agents, "ann")
    failed = ModelRequest(parts=[SystemPromptPart(PROMPT), UserPromptPart("Are you there?")])
    await history.curate([failed])  # and the model failed

    # pydantic-ai makes one request of the two.
    await clerk(Clerk(), history).run(question(1), message_history=[failed])

    asked = [m["content"] for m in agents.read("ann").messages if m["role"] == "user"]
    assert asked == ["Are you there?", question(1)]


async def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    async_agents: AsyncContextClient,
) -> None:
    history = history_processor(async_agents, "ann", policy=Policy(max_tokens=1800))
    model = Clerk()
    agent = Agent(FunctionModel(model), system_prompt=PROMPT, capabilities=[history])

    @agent.tool_plain
    def find_ship(ship: str) -> str:
        return f"{ship}: " + "crate of herring, " * 84_000

    first = await agent.run(question(1), message_history=[])
    await agent.run(question(2), message_history=first.all_messages())

    assert history.counts.failed == 0
    assert len(model.shown) == 4
    assert max(map(tokens, model.shown)) <= 1800
    assert "characters removed" in str(model.shown[1])
    assert question(2) in "".join(prompts(model.shown[-1]))
