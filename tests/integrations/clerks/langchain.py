"""LangChain: a middleware."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.integrations.clerks import Clerk, Process
from tests.integrations.langchain_agents import agent_of, thread
from turnmill.integrations.langchain import ContextMiddleware


async def opened(at: Process) -> Clerk:
    """The agent, whose thread LangGraph keeps."""
    middleware = ContextMiddleware(await at.client(), policy=at.policy)
    memory = at.kept.setdefault("memory", InMemorySaver())
    agent = agent_of(at.model, middleware, checkpointer=memory)

    async def pieces(text: str) -> list[str]:
        asked = {"messages": [HumanMessage(text)]}
        stream = agent.astream(asked, thread("ann"), stream_mode="messages")
        return [str(said.content) async for said, _ in stream if isinstance(said, AIMessage)]

    return Clerk(
        lambda text: agent.ainvoke({"messages": [HumanMessage(text)]}, thread("ann")),
        pieces,
        lambda: middleware.counts.failed,
    )
