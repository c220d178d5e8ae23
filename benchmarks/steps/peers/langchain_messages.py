"""Turns as LangChain's messages, for both peers that use them."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from benchmarks.steps.load import Load
from benchmarks.steps.peers.peer import KEY, MODEL, Peer, arguments, called
from benchmarks.steps.turns import JsonMessage, Turn

__all__ = ["LangChainPeer", "chat_model"]


def chat_model(load: Load) -> ChatOpenAI:
    """The fake model."""
    return ChatOpenAI(model=MODEL, base_url=load.model_url, api_key=KEY)


class LangChainPeer(Peer):
    """A peer whose history is a list of LangChain's messages."""

    def prepare(self, turn: Turn) -> list[AnyMessage]:
        return [_message(each) for each in turn]

    def text(self, message: Any) -> str:
        return f"{message.content}{json.dumps(getattr(message, 'tool_calls', ''))}"


def _message(message: JsonMessage) -> AnyMessage:
    identity = str(uuid4())
    if message["role"] == "user":
        return HumanMessage(message["content"], id=identity)
    if message["role"] == "tool":
        return ToolMessage(message["content"], tool_call_id=message["tool_call_id"], id=identity)
    if not message.get("tool_calls"):
        return AIMessage(message["content"], id=identity)
    call = {
        "name": called(message)["name"],
        "args": arguments(message),
        "id": message["tool_calls"][0]["id"],
    }
    return AIMessage("", tool_calls=[call], id=identity)
