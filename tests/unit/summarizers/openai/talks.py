"""A conversation, and a summarizer that is connected to a fake endpoint."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill.testing import FakeEndpoint
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.summarizers.openai.endpoint import ModelEndpoint, ModelOptions
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer
from turnmill_worker.tokens import counter_for

KEY = "sk-very-secret-key-0123456789"
MODEL = "gpt-4o-mini"
COUNTER = counter_for()

ORDER = "#W7710442"

OPENED: list[ModelEndpoint] = []
"""Closed after each test."""


def call(call_id: str, name: str, arguments: str) -> JsonMessage:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: str) -> JsonMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(content: Any) -> JsonMessage:
    return {"role": "user", "content": content}


def assistant(content: str) -> JsonMessage:
    return {"role": "assistant", "content": content}


TALK: tuple[JsonMessage, ...] = (
    user(f"Hello, I want to exchange the desk lamp of my order {ORDER} for the brass one."),
    call("c1", "get_order", f'{{"order": "{ORDER}"}}'),
    result("c1", '{"status": "delivered", "item": 8384507844, "price": "54.00"}'),
    assistant("Your order is delivered, so an exchange is possible. The brass lamp costs $61.50."),
    user("Please do not touch the other items, and never write to my old address."),
    assistant("I will keep the other items as they are. Shall I charge credit_card_4421?"),
    user("Yes, use credit_card_4421 and keep the receipt."),
)


def numbered(messages: tuple[JsonMessage, ...]) -> tuple[tuple[Seq, JsonMessage], ...]:
    """One turn per message."""
    return tuple((Seq(at), message) for at, message in enumerate(messages, 1))


def request(*messages: JsonMessage, budget: int = 400, **fields: Any) -> SummaryRequest:
    records = numbered(messages or TALK)
    values: dict[str, Any] = {"previous": "", "records": records, "budget_tokens": budget}
    return SummaryRequest(**{**values, **fields})


def connected(endpoint: FakeEndpoint, **more: Any) -> OpenAiSummarizer:
    """A summarizer over an endpoint; fields of ``ModelOptions`` go there."""
    fields = {name: more.pop(name) for name in list(more) if name in ModelOptions.__slots__}
    options = ModelOptions(**{"model": MODEL, "timeout_s": 5.0, **fields})
    asked = ModelEndpoint(api_key=SecretStr(KEY), base_url=endpoint.base_url)
    OPENED.append(asked)
    return OpenAiSummarizer(asked, options, **more)
