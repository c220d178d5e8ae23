"""A Strands agent with a tool, and the scripted model that uses it, over real HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from tests.integrations.scripted import PROMPT, Said, ScriptedModel, lying
from turnmill import Policy
from turnmill.integrations.strands import TurnmillConversationManager

JsonMessage = dict[str, Any]

SMALL = Policy(max_tokens=1600, quality_threshold=0.0)


@tool
def find_ship(ship: str) -> str:
    """Where a ship lies.

    Args:
        ship: its name.
    """
    return lying(ship)


def clerk(messages: list[JsonMessage]) -> Said:
    """Looks every ship up before it answers."""
    newest = messages[-1]
    if newest["role"] == "user":
        ship = text(newest).split()[-1].rstrip("?")
        return Said("I look it up.", ((f"call-{ship}", "find_ship", {"ship": ship}),))
    return Said(f"It lies at {text(newest)[:40]}, Anna pays by noon.")


def text(message: JsonMessage) -> str:
    content = message["content"] or ""
    return content if isinstance(content, str) else " ".join(p.get("text", "") for p in content)


def agent_of(model: ScriptedModel, manager: TurnmillConversationManager, **fields: Any) -> Agent:
    client_args = {"api_key": "none", "base_url": model.base_url, "max_retries": 0}
    return Agent(
        model=OpenAIModel(client_args=client_args, model_id="gpt-4o"),
        system_prompt=PROMPT,
        tools=[find_ship],
        conversation_manager=manager,
        callback_handler=None,
        **fields,
    )


def said_in(messages: Sequence[Any]) -> list[str]:
    return [block["text"] for m in messages for block in m["content"] if "text" in block]
