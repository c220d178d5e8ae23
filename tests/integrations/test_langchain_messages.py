"""LangChain's messages as turnmill's and back, and a chat history made of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("langchain")

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from turnmill import AsyncContextClient, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.contract.marks import FEEDBACK
from turnmill.integrations.langchain import (
    ContextChatMessageHistory,
    ContextMiddleware,
    restored,
    to_chat,
)
from turnmill_worker.tokens import count_request, counter_for

PNG = "iVBORw0KGgo="
CALL: Any = {"id": "c1", "name": "find_ship", "args": {"ship": "Søren"}, "type": "tool_call"}
CALLING = AIMessage("", tool_calls=[CALL])

CHAT: list[BaseMessage] = [
    HumanMessage("Where?", name="ann"),
    AIMessage("I look.", tool_calls=[CALL]),
    ToolMessage("pier 1", tool_call_id="c1", name="find_ship"),
    HumanMessage([{"type": "text", "text": "And?"}]),
    AIMessage("There."),
]


@pytest.fixture
async def async_client(
    client: ContextClient, redis_server: EmbeddedRedis
) -> AsyncIterator[AsyncContextClient]:
    namespace = client.namespace
    made = AsyncContextClient(redis_server.url, namespace=namespace, broker=SilentWaker())
    async with made:
        yield made


def image(**fields: Any) -> HumanMessage:
    return HumanMessage([{"type": "text", "text": "Look:"}, fields])


@pytest.mark.parametrize(
    ("block", "url"),
    [
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, f"image/png;base64,{PNG}"),
        ({"type": "image", "url": "https://a.example/b.png"}, "https://a.example/b.png"),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            f"image/png;base64,{PNG}",
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
            f"image/png;base64,{PNG}",
        ),
    ],
)
def test_images_of_every_shape_are_kept(block: dict[str, Any], url: str) -> None:
    text, found = to_chat(image(**block))["content"]

    assert text == {"type": "text", "text": "Look:"}
    assert found["image_url"]["url"].removeprefix("data:") == url


def test_an_images_detail_is_kept() -> None:
    block = {"url": "https://a.example/b.png", "detail": "low"}

    assert to_chat(image(type="image_url", image_url=block))["content"][1]["image_url"] == block


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"type": "file", "base64": "JVBE", "mime_type": "application/pdf"}, "[file, not kept]"),
        ({"type": "image", "base64": "no base64", "mime_type": "image/png"}, "[image, not kept]"),
        ({"type": "image", "url": "s3://bucket/a.png"}, "[image, not kept]"),
        ({"type": "odd"}, "[non_standard, not kept]"),
    ],
)
def test_what_a_chat_message_cannot_hold_is_a_line(block: dict[str, Any], line: str) -> None:
    assert to_chat(image(**block))["content"][1] == {"type": "text", "text": line}


def test_reasoning_is_left_out_and_comes_back_with_its_message() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s1"}
    call = {"type": "tool_use", "id": "c1", "name": "find_ship", "input": CALL["args"]}
    said = AIMessage([thought, {"type": "text", "text": "I look."}, call], tool_calls=[CALL])

    chat = to_chat(said)

    assert chat["content"] == "I look."
    assert [made["function"]["name"] for made in chat["tool_calls"]] == ["find_ship"]
    assert restored([said], [chat], [chat])[0] is said


async def test_a_message_of_an_agent_with_a_name_in_words_stays_itself(
    client: ContextClient, async_client: AsyncContextClient
) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = AIMessage([thought, {"type": "text", "text": "There."}], name="Harbour Clerk")
    model = FakeListChatModel(responses=[])
    history: list[Any] = [HumanMessage("Where?"), said, HumanMessage("And now?")]
    seen: list[Any] = []

    async def answer(request: ModelRequest[Any]) -> Any:
        seen.extend(request.messages)
        raise RuntimeError

    request: ModelRequest[Any] = ModelRequest(model=model, messages=history)
    with pytest.raises(RuntimeError):
        await ContextMiddleware(async_client, "ann").awrap_model_call(request, answer)

    assert client.read("ann").messages[1]["name"] == "Harbour_Clerk"
    assert seen[1] is said


def test_a_tools_images_stay_in_its_result() -> None:
    shown = {"type": "image", "base64": PNG, "mime_type": "image/png"}

    chat = to_chat(ToolMessage([shown], tool_call_id="c1"))

    assert (chat["role"], chat["content"][0]["type"]) == ("tool", "image_url")


@pytest.mark.parametrize(
    "message", [FunctionMessage(name="f", content="x"), ChatMessage(role="moderator", content="x")]
)
def test_a_speaker_that_chat_does_not_know_lays_down_no_rules(message: BaseMessage) -> None:
    assert to_chat(message) == {"role": "user", "content": "x", "name": FEEDBACK}


def test_a_shortened_result_is_made_anew_with_its_tools_name() -> None:
    chat = [to_chat(message) for message in CHAT[:3]]
    summary = {"role": "system", "content": "so far"}
    context = [summary, chat[1], {**chat[2], "content": "[elided]"}, summary]

    first, call, result, note = restored(CHAT[:3], chat, context)

    assert first == SystemMessage("so far")
    assert call is CHAT[1]
    assert result == ToolMessage("[elided]", tool_call_id="c1", name="find_ship")
    assert note == HumanMessage("so far")  # some providers take system messages in front only


def test_a_call_whose_arguments_were_shortened_stays_a_call() -> None:
    chat = to_chat(CALLING)
    chat["tool_calls"][0]["function"]["arguments"] = '{"ship": "S…'

    (made,) = restored([], [], [chat])

    assert isinstance(made, AIMessage)
    assert [call["id"] for call in made.invalid_tool_calls] == ["c1"]


def test_a_chat_history_returns_what_was_added(client: ContextClient) -> None:
    history = ContextChatMessageHistory(client, "ann", policy=Policy(max_tokens=9000))

    assert history.messages == []
    history.add_messages(CHAT)
    history.add_user_message("Thanks.")

    assert history.messages == [*CHAT, HumanMessage("Thanks.")]
    assert client.info("ann").policy.max_tokens == 9000


async def test_a_chat_history_is_awaited_with_either_client(
    client: ContextClient, async_client: AsyncContextClient
) -> None:
    for made in (client, async_client):
        history = ContextChatMessageHistory(made, "ann")
        await history.aadd_messages(CHAT)
        assert await history.aget_messages() == CHAT
        await history.aclear()
        assert await history.aget_messages() == []


def test_a_message_with_an_id_is_added_once(client: ContextClient) -> None:
    history = ContextChatMessageHistory(client, "ann")

    for text in ("one", "one", "two"):
        history.add_message(AIMessage(text, id="run-1"))

    assert [message.content for message in history.messages] == ["one", "two"]


def test_a_chat_history_leaves_the_system_prompt_to_the_chain(client: ContextClient) -> None:
    client.open("ann", system_prompt="Be brief.")
    history = ContextChatMessageHistory(client, "ann")

    history.add_user_message("Hello")

    assert history.messages == [HumanMessage("Hello")]
    history.clear()
    assert history.messages == []
    ContextChatMessageHistory(client, "unknown").clear()


@pytest.fixture
def gone(tmp_path: Any) -> Iterator[ContextClient]:
    with EmbeddedRedis(tmp_path, durable=False) as server:
        url = server.url
    with ContextClient(url, timeout_s=0.2) as made:
        yield made


POLICY = Policy(max_tokens=600)


words = st.text("abc xyz äß“”\n", min_size=1, max_size=200)


texts = st.builds(lambda text: {"type": "text", "text": text}, words)


images = st.sampled_from(
    [
        {"type": "image", "url": "https://a.example/b.png"},
        {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
        {"type": "file", "base64": "JVBERi0xLjQ=", "mime_type": "application/pdf"},
    ]
)


thoughts = st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, words)


shown: st.SearchStrategy[Any] = words | st.lists(texts | images, min_size=1, max_size=3)


said: st.SearchStrategy[Any] = words | st.builds(
    lambda thought, text: [thought, text], thoughts, texts
)


@st.composite
def histories(draw: st.DrawFn) -> list[BaseMessage]:
    """Conversations with tools, as an agent's state holds them before a call of the model."""
    made: list[BaseMessage] = []
    for at in range(draw(st.integers(1, 6))):
        made.append(HumanMessage(draw(shown)))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"c{at}-{step}-{one}" for one in range(draw(st.integers(1, 3)))]
            calls: Any = [{"id": one, "name": "find", "args": {"q": draw(words)}} for one in ids]
            made.append(AIMessage(draw(said | st.just("")), tool_calls=calls))
            made += [ToolMessage(draw(shown), tool_call_id=one, artifact=one) for one in ids]
        made.append(AIMessage(draw(said)))
    while isinstance(made[-1], AIMessage):
        made.pop()
    return made


@given(histories())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_the_model_is_shown_is_legal_and_fits(
    redis_server: EmbeddedRedis, history: list[BaseMessage]
) -> None:
    seen: list[Any] = []

    def noted(request: Any) -> Any:
        seen.append(request.messages)

    with ContextClient(redis_server.url, broker=SilentWaker()) as client:
        middleware = ContextMiddleware(client, f"p-{uuid.uuid4().hex}", policy=POLICY)
        for end in [at for at, one in enumerate(history, 1) if is_asking(history, at)]:
            told: list[Any] = list(history[:end])
            request: Any = ModelRequest(model=FakeListChatModel(responses=[]), messages=told)
            middleware.wrap_model_call(request, noted)

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 0)
    for messages in seen:
        chat = [to_chat(message) for message in messages]
        assert violations(chat) == []
        assert count_request(counter_for(), chat) <= POLICY.hard_limit


def is_asking(history: list[BaseMessage], end: int) -> bool:
    """Whether a model is called after so many messages: no call waits for its result."""
    is_last = end == len(history) or isinstance(history[end], AIMessage)
    return is_last and not isinstance(history[end - 1], AIMessage)


@given(histories())
def test_a_message_made_anew_says_the_same(history: list[BaseMessage]) -> None:
    chat = [to_chat(message) for message in [SystemMessage("Be brief."), *history]]

    assert [to_chat(message) for message in restored([], [], chat)] == chat
