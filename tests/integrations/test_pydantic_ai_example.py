"""What a newcomer runs of pydantic-ai: the example. The page's code runs in tests/tour."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai")

from tests.integrations.running import EXAMPLES, run
from tests.integrations.scripted import serving
from tests.integrations.test_langchain_examples import clerk
from turnmill.embedded_redis import EmbeddedRedis


def test_the_example_answers_from_the_sessions_context(store: EmbeddedRedis) -> None:
    example = str(EXAMPLES / "pydantic_ai_agent.py")
    said = "Where is the ship Emma?\nThanks."
    chat = "openai-chat:gpt-5-mini"
    with serving(clerk) as model:
        output = run(example, said=said, model=model.base_url, redis=store.url, MODEL=chat)

    assert "I was told: Emma lies at pier 5." in output
    assert "I was told: Thanks." in output
    # The last answer is pushed with the next question.
    assert "5 turns in the session" in output
