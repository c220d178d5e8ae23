"""Which session a LangChain agent's messages are in, and what is pushed to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.integrations.langchain_agents import (
    PROMPT,
    SMALL,
    JsonMessage,
    agent_of,
    asking,
    assert_fits,
    clerk,
    question,
    texts,
    thread,
)
from tests.integrations.scripted import Said, ScriptedModel, serving
from turnmill import ContextClient, InvalidInput
from turnmill.contract.legality import violations
from turnmill.integrations.langchain import ContextMiddleware


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        yield running


def test_another_process_pushes_only_what_is_new(
    agents: ContextClient, model: ScriptedModel
) -> None:
    memory = InMemorySaver()
    agent_of(model, ContextMiddleware(agents), checkpointer=memory).invoke(asking(1), thread("ann"))
    later = ContextMiddleware(agents)

    agent_of(model, later, checkpointer=memory).invoke(asking(2), thread("ann"))

    assert (later.counts.pushed, later.counts.branched) == (5, 0)
    assert agents.info("ann").last_seq == 10


def test_a_request_that_failed_is_repeated_without_a_double(
    agents: ContextClient, model: ScriptedModel
) -> None:
    def refuses(_: list[JsonMessage]) -> Said:
        raise ConnectionError

    middleware = ContextMiddleware(agents)
    agent = agent_of(model, middleware)
    model.script = refuses
    with pytest.raises(Exception, match=r"[Cc]onnection"):
        agent.invoke(asking(1), thread("ann"))
    model.script = clerk

    agent.invoke(None, thread("ann"))

    assert (middleware.counts.pushed, middleware.counts.branched) == (5, 0)
    assert [m["role"] for m in agents.read("ann").messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip


@pytest.mark.parametrize("same_process", [True, False])
def test_a_thread_that_went_back_goes_on_in_a_branch_of_its_session(
    agents: ContextClient, model: ScriptedModel, *, same_process: bool
) -> None:
    memory = InMemorySaver()
    middleware = ContextMiddleware(agents, policy=SMALL)
    agent = agent_of(model, middleware, checkpointer=memory)
    for number in (1, 2):
        agent.invoke(asking(number), thread("ann"))
    past = [s for s in agent.get_state_history(thread("ann")) if len(s.values["messages"]) == 5]
    if not same_process:
        middleware = ContextMiddleware(agents, policy=SMALL)
        agent = agent_of(model, middleware, checkpointer=memory)

    agent.invoke(asking(3), past[0].config)
    for number in range(4, 14):
        agent.invoke(asking(number), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 1)
    assert_fits(agents, "ann", model)
    assert question(2) not in texts(model.requests[-1])
    assert question(13) in texts(model.requests[-1])
    (branch,) = [name for name in agents.sessions() if name.startswith("ann~")]
    assert agents.info(branch).policy.max_tokens == SMALL.max_tokens
    assert agents.info(branch).last_seq == 12 * 5


def test_an_answer_that_is_made_again_is_told_once(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)
    agent = agent_of(model, middleware)
    agent.invoke(asking(1), thread("ann"))
    past = [s for s in agent.get_state_history(thread("ann")) if len(s.values["messages"]) == 4]

    agent.invoke(None, past[0].config)
    agent.invoke(asking(2), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 1)
    assert violations(model.requests[-1]) == []
    assert texts(model.requests[-1]).count("Anna pays by noon.") == 1


def test_agents_in_tools_have_sessions_of_their_own(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)
    inner = agent_of(model, middleware, checkpointer=None, system_prompt="You look up ships.")

    @tool
    def ask_harbour(ship: str) -> str:
        """Where a ship lies."""
        found = inner.invoke({"messages": [HumanMessage(f"where is ship {ship}?")]})
        return str(found["messages"][-1].content)

    def outer_model(messages: list[JsonMessage]) -> Said:
        if "You look up ships." in texts(messages):
            return clerk(messages)
        if messages[-1]["role"] == "tool":
            return Said("done")
        calls = [(f"c{ship}", "ask_harbour", {"ship": f"S{ship}"}) for ship in (1, 2)]
        return Said("", tuple(calls))

    model.script = outer_model
    outer = agent_of(model, middleware, tools=[ask_harbour])

    outer.invoke({"messages": [HumanMessage("Where are the ships?")]}, thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 0)
    assert agents.info("ann").last_seq == 5
    assert len([name for name in agents.sessions() if name.startswith("ann/tools/")]) == 2


def test_a_function_names_the_session_by_the_run(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents, lambda runtime: str(runtime.context["chat"]))
    agent = agent_of(model, middleware, checkpointer=None)

    agent.invoke(asking(1), context={"chat": "eve"})

    assert agents.info("eve").last_seq == 5
    assert agents.read("eve").system_prompt == PROMPT


def test_a_run_without_a_session_is_refused(agents: ContextClient, model: ScriptedModel) -> None:
    agent = agent_of(model, ContextMiddleware(agents), checkpointer=None)

    with pytest.raises(InvalidInput, match="no thread_id"):
        agent.invoke(asking(1))


def test_a_forgotten_session_is_pushed_again_from_its_beginning(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)
    agent = agent_of(model, middleware)
    agent.invoke(asking(1), thread("ann"))
    agents.forget("ann")

    agent.invoke(asking(2), thread("ann"))

    assert middleware.counts.failed == 0
    assert agents.info("ann").last_seq == 10
    assert agents.read("ann").system_prompt == PROMPT
