"""Specification 002 inside pydantic-ai: an agent whose model sees a managed context.

Through Redis and a real Celery worker; the model is pydantic-ai's own ``FunctionModel``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelMessagesTypeAdapter, ModelRetry
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.specifications.agents import settled
from turnmill import AsyncContextClient, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.integrations.pydantic_ai import (
    HistoryProcessor,
    from_chat,
    history_processor,
    restore,
    to_chat,
)
from turnmill_worker.tokens import count_request, counter_for

MANAGED = "Context summary (managed): "
PROMPT = "You are a harbour clerk."
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


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


async def test_another_process_with_the_stored_history_pushes_only_what_is_new(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    agent = clerk(Clerk(), history_processor(async_agents, "ann"))
    said = (await agent.run(question(1))).all_messages()
    stored = ModelMessagesTypeAdapter.dump_json(said)
    later = history_processor(async_agents, "ann")

    await clerk(Clerk(), later).run(
        question(2), message_history=ModelMessagesTypeAdapter.validate_json(stored)
    )

    assert later.counts.pushed == 4  # the first run's answer, the question, the call, the result
    assert agents.info("ann").last_seq == 7


async def test_what_is_word_for_word_is_the_very_message_it_was(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    policy = Policy.managed(recent_runs=2, passthrough_runs=1)
    model = Clerk()
    agent = clerk(model, history_processor(async_agents, "ann", policy=policy))
    said: list[ModelMessage] = []
    for number in range(1, 5):
        said = (await agent.run(question(number), message_history=said)).all_messages()
        settled(agents, "ann")

    shown = model.shown[-1]

    assert views(shown)
    thoughts = [p for m in shown for p in m.parts if isinstance(p, ThinkingPart)]
    assert thoughts
    assert all(thought.signature == "s1" for thought in thoughts)
    assert shown[-2] in said


async def test_a_retry_is_told_with_its_call(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    def stubborn(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        tries = sum(isinstance(message, ModelResponse) for message in messages)
        if tries == 2:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("find_ship", {"ship": "XS"[tries] + "7"})])

    history = history_processor(async_agents, "ann")
    agent = Agent(FunctionModel(stubborn), capabilities=[history])

    @agent.tool_plain(retries=2)
    def find_ship(ship: str) -> str:
        if not ship.startswith("S"):
            raise ModelRetry("a ship's name begins with S")
        return "pier 1"

    result = await agent.run("Where is it?")

    assert result.output == "done"
    assert history.counts.failed == 0
    context = agents.read("ann").messages
    assert violations(context) == []
    assert [m["role"] for m in context] == ["user", "assistant", "tool", "assistant", "tool"]
    assert "begins with S" in context[2]["content"]


async def test_a_rewound_history_is_sent_as_it_is(async_agents: AsyncContextClient) -> None:
    history = history_processor(async_agents, "ann")
    first = ModelRequest(parts=[UserPromptPart(question(1))])
    answer = ModelResponse(parts=[TextPart("pier 1")])
    await history.curate([first, answer, ModelRequest(parts=[UserPromptPart(question(2))])])

    assert await history.curate([first]) == [first]
    assert history.counts.diverged == 1


async def test_while_redis_is_down_a_normal_run_proceeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = EmbeddedRedis(tmp_path, durable=False)
    with server:
        url = server.url
    model = Clerk()
    async with AsyncContextClient(url, timeout_s=0.2) as client:
        history = history_processor(client, lambda _: "ann", policy=Policy.managed())
        with caplog.at_level(logging.WARNING):
            result = await clerk(model, history).run(question(1))

    assert result.output.startswith("It lies at pier")
    assert history.counts.failed == 2
    assert question(1) in prompts(model.shown[0])
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("turnmill.integrations")]
    assert ours == ["history left as it is: StoreUnavailable"] * 2


async def test_a_deps_function_names_the_session_and_its_errors_do_not_reach_the_agent(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    history = history_processor(async_agents, lambda deps: str(deps["chat"]))
    said = [ModelRequest(parts=[UserPromptPart(question(1))])]

    await history.curate(said, deps={"chat": "bob"}, instructions="Be brief.")
    assert await history.curate(said, deps={}) == said

    assert agents.read("bob").system_prompt == "Be brief."
    assert history.counts.failed == 1


async def test_a_forgotten_session_is_pushed_again_from_its_beginning(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    agent = clerk(Clerk(), history_processor(async_agents, "ann"))
    said = (await agent.run(question(1))).all_messages()
    agents.forget("ann")

    said = (await agent.run(question(2), message_history=said)).all_messages()

    context = agents.read("ann")
    assert context.system_prompt == PROMPT
    assert context.messages[1:] == to_chat(said).messages[:-1]


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


async def test_an_image_goes_through_redis_and_comes_back(
    agents: ContextClient, async_agents: AsyncContextClient
) -> None:
    history = history_processor(async_agents, "ann")
    pushed = BinaryContent(PIXEL + bytes(4096), media_type="image/png")
    said = [ModelRequest(parts=[UserPromptPart(["Look:", pushed])])]

    shown = await history.curate(said)

    assert shown[0] is said[0]
    (back,) = from_chat(agents.read("ann").messages)
    (part,) = back.parts
    assert isinstance(part, UserPromptPart)
    assert part.content[0] == "Look:"
    image = part.content[1]
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (pushed.data, "image/png")


def test_chat_messages_come_back_as_they_went() -> None:
    image = BinaryContent(PIXEL, media_type="image/png", vendor_metadata={"detail": "low"})
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["Look:", image, ImageUrl("https://a.example/b.png")])]),
        ModelResponse(parts=[TextPart("Two."), ToolCallPart("find_ship", '{"ship": "S1"}', "c1")]),
        ModelRequest(
            parts=[ToolReturnPart("find_ship", {"pier": 1}, "c1"), UserPromptPart("And?")]
        ),
    ]

    chat = to_chat(history).messages
    back = from_chat(chat)

    assert to_chat(back).messages == chat
    assert [type(part) for message in back for part in message.parts] == [
        type(part) for message in history for part in message.parts
    ]
    assert back[1].parts == history[1].parts


def test_what_a_chat_message_has_no_field_for_is_a_line_of_text_or_left_out() -> None:
    file = BinaryContent(b"%PDF", media_type="application/pdf")
    note = SystemPromptPart("for this request", scope="request")
    history: list[ModelMessage] = [
        ModelRequest(
            parts=[UserPromptPart([TextContent("Read:"), file, ImageUrl("s3://a/b.png")])]
        ),
        ModelResponse(parts=[ThinkingPart("hm")]),
        ModelRequest(parts=[SystemPromptPart("From now on, be brief."), note]),
    ]

    chat = to_chat(history)

    assert [part["text"] for part in chat.messages[0]["content"]] == [
        "Read:",
        "[binary, not kept]",
        "[image-url, not kept]",
    ]
    assert chat.messages[1:] == [{"role": "system", "content": "From now on, be brief."}]
    assert chat.owners == [0, 2]
    assert restore(history, chat, chat.messages) == [0, 1, 2]


def test_a_shortened_result_is_made_anew_and_its_neighbours_are_not() -> None:
    history: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart(PROMPT), UserPromptPart("Where?")], instructions="x"),
        ModelResponse(parts=[ThinkingPart("hm"), ToolCallPart("find_ship", "{}", "c1")]),
        ModelRequest(parts=[ToolReturnPart("find_ship", "long " * 99, "c1")], instructions="y"),
    ]
    chat = to_chat(history)
    summary = {"role": "system", "content": "Context summary (managed): so far"}
    context = [summary, chat.messages[1], {**chat.messages[2], "content": "[elided]"}]

    first, second, kept, last = restore(history, chat, context)

    assert first == ModelRequest(parts=list(chat.prompts))
    assert isinstance(second, ModelRequest)
    assert prompts([second]) == ["Context summary (managed): so far"]
    assert kept == 1
    assert isinstance(last, ModelRequest)
    assert last.instructions == "y"
    (part,) = last.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.tool_name, part.content) == ("find_ship", "[elided]")
