"""LangChain agents of one kind, and what their requests are checked for."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from tests.integrations.scripted import PROMPT, ScriptedModel, lying, question
from turnmill import ContextClient, Policy
from turnmill.contract.legality import violations
from turnmill_worker.tokens import count_request, counter_for

JsonMessage = dict[str, Any]

SMALL = Policy(max_tokens=1600, quality_threshold=0.0)


@tool
def find_ship(ship: str) -> str:
    """Where a ship lies."""
    return lying(ship)


class Seen(AgentMiddleware[Any, Any, Any]):
    """Notes what the model is shown."""

    def __init__(self, shown: list[AnyMessage]) -> None:
        super().__init__()
        self.shown = shown

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.shown[:] = request.messages
        return handler(request)


def chat_model(model: ScriptedModel) -> ChatOpenAI:
    key = SecretStr("none")
    return ChatOpenAI(model="gpt-4o", base_url=model.base_url, api_key=key, max_retries=0)


def agent_of(model: ScriptedModel, *middleware: Any, **fields: Any) -> Any:
    given = {"tools": [find_ship], "checkpointer": InMemorySaver(), "system_prompt": PROMPT}
    return create_agent(chat_model(model), middleware=middleware, **{**given, **fields})


def asking(*numbers: int) -> dict[str, Any]:
    return {"messages": [HumanMessage(question(number)) for number in numbers]}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def assert_fits(client: ContextClient, session: str, model: ScriptedModel) -> None:
    """Every request was legal, and within the limit."""
    info = client.info(session)
    hard = info.limits.hard - info.tools_tokens
    assert info.tools_tokens > 0
    for shown in model.requests:
        assert count_request(counter_for(), shown) <= hard
        assert violations(shown) == []
        assert shown[0] == {"role": "system", "content": PROMPT}
