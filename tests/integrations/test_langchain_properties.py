"""Whatever is said: what a LangChain model is shown is legal and fits."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("langchain")

from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.integrations.langchain import ContextMiddleware, restored, to_chat
from turnmill_worker.tokens import count_request, counter_for

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
