"""An agent of openai-agents with tools, whose conversation never outgrows its model.

    pip install '.[embedded,openai-agents]'
    python examples/openai_agents_agent.py

Run it in the repository's folder, while ``turnmill up`` runs in another terminal. The framework's
own variables say which model answers: ``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and
``OPENAI_DEFAULT_MODEL``; ``TURNMILL_REDIS_URL`` says where Redis is. An empty line or Ctrl-D ends
it. The next run goes on where it was.
"""

import asyncio
import os
from contextlib import suppress

from agents import Agent, RunConfig, Runner, function_tool

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.openai_agents import TurnmillSession

REDIS = os.environ.get("TURNMILL_REDIS_URL", "redis://localhost:6379/0")
POLICY = Policy(max_tokens=32_000)


@function_tool
def find_order(number: str) -> str:
    """Where an order is."""
    return f"Order {number} left the warehouse on Monday and is due on Thursday."


@function_tool(needs_approval=True)
def refund(number: str) -> str:
    """Give the money for an order back."""
    return f"Order {number} is refunded."


async def main() -> None:
    """Answer line by line; ask the person before money goes."""
    agent = Agent(name="Clerk", instructions="Be brief.", tools=[find_order, refund])
    async with AsyncContextClient(REDIS) as client:
        session = TurnmillSession("customer-7", client=client, policy=POLICY)
        # Each model call of a run, too, gets the compacted context; instructions and tools count.
        config = RunConfig(
            call_model_input_filter=session.call_model_input_filter, tracing_disabled=True
        )
        with suppress(EOFError):
            while text := input("> "):
                result = await Runner.run(agent, text, session=session, run_config=config)
                while result.interruptions:
                    state = result.to_state()
                    for asked in result.interruptions:
                        question = f"{asked.name} {asked.arguments}? (y/n) "
                        if input(question) == "y":
                            state.approve(asked)
                        else:
                            state.reject(asked)
                    result = await Runner.run(agent, state, session=session, run_config=config)
                print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
