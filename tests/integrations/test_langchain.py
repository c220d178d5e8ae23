"""A LangChain agent whose model sees a session's context; its own OpenAI client, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langchain_openai")

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.integrations.langchain_agents import (
    SMALL,
    Seen,
    agent_of,
    asking,
    assert_fits,
    chat_model,
    thread,
)
from tests.integrations.scripted import (
    PROMPT,
    JsonMessage,
    Said,
    ScriptedModel,
    clerk,
    huge,
    question,
    serving,
    texts,
)
from tests.specifications.agents import settled
from turnmill import ContextClient, InvalidInput
from turnmill.contract.legality import violations
from turnmill.integrations.langchain import ContextChatMessageHistory, ContextMiddleware
from turnmill.integrations.shared import Client


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with serving(clerk) as running:
        yield running


async def test_a_synchronous_client_serves_an_awaited_agent(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)

    await agent_of(model, middleware).ainvoke(asking(1), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.pushed) == (0, 5)


async def test_a_client_that_must_be_awaited_is_refused_by_an_agent_that_is_not(
    async_agents: Client, model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = ContextMiddleware(async_agents)

    agent_of(model, middleware).invoke(asking(1), thread("ann"))

    assert middleware.counts.failed == 2
    assert "messages left as they are: TypeError" in caplog.messages


def test_what_is_word_for_word_is_the_very_message_it_was(
    agents: ContextClient, model: ScriptedModel
) -> None:
    shown: list[AnyMessage] = []
    agent = agent_of(model, ContextMiddleware(agents, policy=SMALL), Seen(shown))
    for number in range(1, 13):
        state = agent.invoke(asking(number), thread("ann"))
        settled(agents, "ann")

    own = {id(message) for message in state["messages"]}
    assert [id(message) in own for message in shown[-3:]] == [True] * 3
    assert not all(id(message) in own for message in shown)


def test_calls_that_a_person_edits_and_rejects_are_told_with_their_results(
    agents: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(agents)
    approval = HumanInTheLoopMiddleware({"find_ship": True})
    agent = agent_of(model, middleware, approval)
    agent.invoke(asking(1), thread("ann"))
    edited = {"name": "find_ship", "args": {"ship": "S5"}}
    decisions = [{"type": "edit", "edited_action": edited}, {"type": "reject", "message": "no"}]

    agent.invoke(Command(resume={"decisions": decisions}), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 0)
    context = agents.read("ann").messages
    assert violations(context) == []
    results = [message["content"] for message in context if message["role"] == "tool"]
    assert results[0].startswith("User rejected the tool call")
    assert "pier 5 with S5" in results[1]


def test_a_request_that_failed_is_repeated_without_a_double(
    client: ContextClient, model: ScriptedModel
) -> None:
    def refuses(_: list[JsonMessage]) -> Said:
        raise ConnectionError

    middleware = ContextMiddleware(client)
    agent = agent_of(model, middleware)
    model.script = refuses
    with pytest.raises(Exception, match=r"[Cc]onnection"):
        agent.invoke(asking(1), thread("ann"))
    model.script = clerk

    agent.invoke(None, thread("ann"))

    assert (middleware.counts.pushed, middleware.counts.branched) == (5, 0)
    assert [m["role"] for m in client.read("ann").messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip


def _continued_earlier(agent: Any) -> Any:
    history = agent.get_state_history(thread("ann"))
    return next(each.config for each in history if len(each.values["messages"]) == 50)


def _edited(agent: Any) -> Any:
    asked = agent.get_state(thread("ann")).values["messages"][50]
    return agent.update_state(thread("ann"), {"messages": [HumanMessage("Where?", id=asked.id)]})


def _removed(agent: Any) -> Any:
    newest = agent.get_state(thread("ann")).values["messages"][50:]
    gone = [RemoveMessage(id=each.id) for each in newest]
    return agent.update_state(thread("ann"), {"messages": gone})


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("going_back", [_continued_earlier, _edited, _removed])
def test_a_history_that_went_back_or_was_edited_goes_on_in_a_fork_of_its_session(
    agents: ContextClient, model: ScriptedModel, going_back: Any, *, same_process: bool
) -> None:
    memory = InMemorySaver()
    middleware = ContextMiddleware(agents, policy=SMALL)
    agent = agent_of(model, middleware, checkpointer=memory)
    for number in range(1, 13):
        agent.invoke(asking(number), thread("ann"))
        settled(agents, "ann")
    if not same_process:
        middleware = ContextMiddleware(agents, policy=SMALL)
        agent = agent_of(model, middleware, checkpointer=memory)

    agent.invoke(asking(20), going_back(agent))
    state = agent.invoke(asking(21), thread("ann"))

    counts = middleware.counts
    assert (counts.failed, counts.branched, counts.replayed) == (0, 1, 0)
    assert_fits(agents, "ann", model)
    assert question(11) not in texts(model.requests[-1])
    assert question(20) in texts(model.requests[-1])
    (branch,) = [name for name in agents.sessions() if name.startswith("ann~")]
    begun = agents.info(branch)
    assert (begun.version > 0, begun.policy) == (True, SMALL)
    assert (agents.info("ann").last_seq, begun.last_seq) == (60, len(state["messages"]))
    before, after = (
        [turn.messages for turn in agents.trajectory(name).turns] for name in ("ann", branch)
    )
    assert before[:50] == after[:50]
    assert before[50] != after[50]


@pytest.mark.parametrize("same_process", [True, False])
def test_without_a_worker_a_branch_is_pushed_from_its_first_message_and_counted(
    client: ContextClient, model: ScriptedModel, *, same_process: bool
) -> None:
    memory = InMemorySaver()
    middleware = ContextMiddleware(client, policy=SMALL)
    agent = agent_of(model, middleware, checkpointer=memory)
    for number in (1, 2):
        agent.invoke(asking(number), thread("ann"))
    past = [s for s in agent.get_state_history(thread("ann")) if len(s.values["messages"]) == 5]
    if not same_process:
        middleware = ContextMiddleware(client, policy=SMALL)
        agent = agent_of(model, middleware, checkpointer=memory)

    agent.invoke(asking(3), past[0].config)
    for number in range(4, 14):
        agent.invoke(asking(number), thread("ann"))

    counts = middleware.counts
    assert (counts.failed, counts.branched, counts.replayed) == (0, 1, 1)
    assert_fits(client, "ann", model)
    assert client.info("ann").last_seq == 10
    assert question(2) not in texts(model.requests[-1])
    assert question(13) in texts(model.requests[-1])
    (branch,) = [name for name in client.sessions() if name.startswith("ann~")]
    assert client.info(branch).policy.max_tokens == SMALL.max_tokens
    assert client.info(branch).last_seq == 12 * 5


def test_an_answer_that_is_made_again_is_told_once(
    client: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(client)
    agent = agent_of(model, middleware)
    agent.invoke(asking(1), thread("ann"))
    past = [s for s in agent.get_state_history(thread("ann")) if len(s.values["messages"]) == 4]

    agent.invoke(None, past[0].config)
    agent.invoke(asking(2), thread("ann"))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 1)
    assert violations(model.requests[-1]) == []
    assert texts(model.requests[-1]).count("Anna pays by noon.") == 1


def test_agents_in_tools_have_sessions_of_their_own(
    client: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(client)
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
    assert client.info("ann").last_seq == 5
    assert len([name for name in client.sessions() if name.startswith("ann/tools/")]) == 2


def test_a_function_names_the_session_by_the_run(
    client: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(client, lambda runtime: str(runtime.context["chat"]))
    agent = agent_of(model, middleware, checkpointer=None)

    agent.invoke(asking(1), context={"chat": "eve"})

    assert client.info("eve").last_seq == 5
    assert client.read("eve").system_prompt == PROMPT


def test_a_run_without_a_session_is_refused(client: ContextClient, model: ScriptedModel) -> None:
    agent = agent_of(model, ContextMiddleware(client), checkpointer=None)

    with pytest.raises(InvalidInput, match="no thread_id"):
        agent.invoke(asking(1))


def test_a_forgotten_session_is_pushed_again_from_its_beginning(
    client: ContextClient, model: ScriptedModel
) -> None:
    middleware = ContextMiddleware(client)
    agent = agent_of(model, middleware)
    agent.invoke(asking(1), thread("ann"))
    client.forget("ann")

    agent.invoke(asking(2), thread("ann"))

    assert middleware.counts.failed == 0
    assert client.info("ann").last_seq == 10
    assert client.read("ann").system_prompt == PROMPT


def test_threads_of_one_process_do_not_meet(client: ContextClient, model: ScriptedModel) -> None:
    middleware = ContextMiddleware(client, policy=SMALL)
    agent = agent_of(model, middleware)

    def chat(name: str) -> None:
        for number in range(1, 7):
            agent.invoke(asking(number), thread(name))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(chat, [f"user-{at}" for at in range(4)]))

    assert (middleware.counts.failed, middleware.counts.branched) == (0, 0)
    assert [client.info(f"user-{at}").last_seq for at in range(4)] == [30] * 4
    assert len(client.sessions()) == 4


def test_conversations_in_one_session_at_a_time_each_get_their_own_context(
    client: ContextClient, model: ScriptedModel
) -> None:
    for session in ("ann", "bob", "cid", "dan"):  # one of them alone often goes well by chance
        middleware = ContextMiddleware(client, session, policy=SMALL)
        agent = agent_of(model, middleware, checkpointer=None)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(agent.invoke, map(asking, range(1, 13))))

    for shown in model.requests:
        assert violations(shown) == []
        assert sum("Question" in str(message["content"]) for message in shown) == 1


# LangChain deprecates it in favour of agents; chains that have it want a history all the same.
@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_a_chain_goes_on_from_the_chat_history(client: ContextClient, model: ScriptedModel) -> None:
    def history(session_id: str) -> ContextChatMessageHistory:
        return ContextChatMessageHistory(client, session_id)

    model.script = lambda messages: Said(f"I was told: {messages[-1]['content']}")
    chain = RunnableWithMessageHistory(chat_model(model), history)
    for text in ("Hello", "Thanks"):
        said = chain.invoke([HumanMessage(text)], {"configurable": {"session_id": "ann"}})

    assert said.content == "I was told: Thanks"
    assert [message["content"] for message in model.requests[-1]] == [
        "Hello", "I was told: Hello", "Thanks",
    ]  # fmt: skip
    assert client.info("ann").last_seq == 4


def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    client: ContextClient, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    middleware = ContextMiddleware(client, policy=SMALL)
    agent = agent_of(model, middleware)
    with monkeypatch.context() as patched:
        patched.setattr("tests.integrations.langchain_agents.lying", huge)
        agent.invoke(asking(1), thread("ann"))
    state = agent.invoke(asking(2), thread("ann"))

    assert middleware.counts.failed == middleware.counts.branched == 0
    assert len(model.requests) == 4
    assert_fits(client, "ann", model)
    assert "characters removed" in str(model.requests[1])
    assert question(2) in texts(model.requests[-1])
    assert client.info("ann").last_seq == len(state["messages"])
