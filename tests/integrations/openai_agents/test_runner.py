"""openai-agents' own runner with a session of turnmill, and a model behind real HTTP."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, RunState, function_tool, handoff
from agents.extensions.handoff_filters import remove_all_tools
from agents.mcp import MCPServerStdio

from tests.integrations import harbour_server
from tests.integrations.openai_agents.scripted import ScriptedResponses, call, message, reasoning
from turnmill import AsyncContextClient, InvalidInput, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.estimate import Counter
from turnmill.dialects.convert import in_chat
from turnmill.dialects.legality import violations
from turnmill.integrations.openai_agents import TurnmillSession
from turnmill_worker.tokens import counter_for

pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("worker")]

Json = dict[str, Any]

SMALL = Policy(max_tokens=2_000, quality_threshold=0.0)


@function_tool
def look(part: int) -> str:
    """Look into a part of the log."""
    return f"Part {part}: user u-{part * 37} set ORDER-{part} to {part * 17}. " * 6


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


def clerk(model: OpenAIResponsesModel, **more: Any) -> Agent[Any]:
    return Agent(name="Clerk", model=model, tools=[look, pay], **more)


def check(inputs: list[list[Json]], counter: Counter, most: int = SMALL.max_tokens) -> None:
    """Every request is one that the API takes, and fits."""
    for items in inputs:
        assert violations(items, "responses") == []
        assert counter.count_messages(list(in_chat(items)[1])) <= most


@pytest.fixture
def counter() -> Counter:
    return counter_for("o200k_base")


async def test_a_single_long_run_stays_within_the_limit(
    endpoint: ScriptedResponses,
    model: OpenAIResponsesModel,
    client: AsyncContextClient,
    counter: Counter,
) -> None:
    session = TurnmillSession("s", client=client, policy=SMALL)
    steps = 30
    endpoint.outputs += [[reasoning(at), call("look", at, part=at)] for at in range(steps)]
    endpoint.outputs.append([message("All is fine.")])

    result = await Runner.run(
        clerk(model),
        "Check all parts.",
        session=session,
        max_turns=steps + 1,
        run_config=RunConfig(call_model_input_filter=session.call_model_input_filter),
    )

    assert result.final_output == "All is fine."
    assert len(endpoint.requests) == steps + 1
    tools = (await client.info("s")).tools_tokens
    assert tools > 40
    check(endpoint.inputs, counter, SMALL.max_tokens - tools)
    assert session.counts.unfiltered == 0
    assert endpoint.inputs[-1][-1]["output"].startswith("Part 29")


async def test_branches_are_forks_that_both_go_on(
    endpoint: ScriptedResponses,
    model: OpenAIResponsesModel,
    client: AsyncContextClient,
    counter: Counter,
) -> None:
    session = TurnmillSession("s", client=client, policy=SMALL)
    config = RunConfig(call_model_input_filter=session.call_model_input_filter)

    async def ask(at: int) -> str:
        endpoint.outputs += [[reasoning(at), call("look", at, part=at)], [message("Fine.", at)]]
        await Runner.run(clerk(model), f"Check {at}.", session=session, run_config=config)
        return str(endpoint.inputs[-1])

    for at in range(1, 21):
        await ask(at)
        if at % 5 == 0:
            await session.run_compaction({"force": True})
    main = await session.get_items()

    branch = await session.create_branch_from_turn(16, "other")
    in_branch = await ask(30)
    await session.switch_to_branch("main")
    untouched = await session.get_items()
    in_main = await ask(31)
    again = TurnmillSession("s", client=client)
    await again.switch_to_branch(branch)

    assert branch == "other"
    assert untouched == main
    assert "Check 15." in in_branch
    assert not any(f"Check {at}." in in_branch for at in range(16, 21))
    assert "Check 20." in in_main
    assert "Check 30." not in in_main
    assert "Check 30." in str(await again.get_items())
    assert (await client.info("s~other")).version > 0
    assert session.counts.unfiltered == session.counts.failed == 0
    check(endpoint.inputs, counter)


async def test_a_branch_that_cannot_be_is_refused_and_nothing_changes(
    client: AsyncContextClient,
) -> None:
    session = TurnmillSession("s", client=client)
    await session.add_items([{"role": "user", "content": "Hi"}, message("Hello.")])
    for number in (0, 2):
        with pytest.raises(InvalidInput, match="none of 1 messages"):
            await session.create_branch_from_turn(number)
    with pytest.raises(InvalidInput, match="no branch 'other'"):
        await session.switch_to_branch("other")

    empty = await session.create_branch_from_turn(1)
    in_branch = await session.get_items()
    await session.switch_to_branch("main")

    assert empty.startswith("branch_from_turn_1_")
    assert in_branch == []
    assert await session.get_items() == [{"role": "user", "content": "Hi"}, message("Hello.")]


async def test_a_handoff_keeps_one_conversation(
    endpoint: ScriptedResponses,
    model: OpenAIResponsesModel,
    client: AsyncContextClient,
    counter: Counter,
) -> None:
    session = TurnmillSession("s", client=client, policy=SMALL)
    payer = Agent(name="Payer", model=model, tools=[look])
    agent = clerk(model, handoffs=[payer])
    endpoint.outputs += [
        [call("transfer_to_payer", 1)],
        [call("look", 2, part=2)],
        [message("Paid.", 1)],
        [message("You are welcome.", 2)],
    ]

    first = await Runner.run(agent, "Pay part 2.", session=session)
    await Runner.run(agent, "Thanks.", session=session)

    assert first.last_agent is payer
    check(endpoint.inputs, counter)
    kinds = [item.get("type", "message") for item in endpoint.inputs[-1]]
    called = ["function_call", "function_call_output"]
    assert kinds == ["message", *called, *called, "message", "message"]


async def test_what_a_handoff_leaves_out_stays_out(
    endpoint: ScriptedResponses, model: OpenAIResponsesModel, client: AsyncContextClient
) -> None:
    session = TurnmillSession("s", client=client, policy=SMALL)
    payer = Agent(name="Payer", model=model)
    agent = clerk(model, handoffs=[handoff(payer, input_filter=remove_all_tools)])
    endpoint.outputs += [[call("transfer_to_payer", 1)], [message("Paid.", 1)]]
    config = RunConfig(call_model_input_filter=session.call_model_input_filter)

    await Runner.run(agent, "Pay part 2.", session=session, run_config=config)

    assert [item["content"] for item in endpoint.inputs[1]] == ["Pay part 2."]


async def test_an_interrupted_run_goes_on_in_another_process(
    endpoint: ScriptedResponses,
    model: OpenAIResponsesModel,
    client: AsyncContextClient,
    store: EmbeddedRedis,
    counter: Counter,
) -> None:
    agent = clerk(model)
    session = TurnmillSession("s", client=client, policy=SMALL)
    endpoint.outputs += [
        [reasoning(1), call("look", 1, part=1), call("pay", 2, amount=17)],
        [message("Paid 17.")],
        [message("It was part 1.", 2)],
    ]

    stopped = await Runner.run(agent, "Pay part 1.", session=session)
    assert [item.name for item in stopped.interruptions] == ["pay"]
    kept = stopped.to_state().to_string()

    async with AsyncContextClient(store.url, namespace=client.namespace) as other:
        again = TurnmillSession("s", client=other)
        state = await RunState.from_string(agent, kept)
        state.approve(state.get_interruptions()[0])
        done = await Runner.run(agent, state, session=again)
        await Runner.run(agent, "Which part was it?", session=again)

    assert done.final_output == "Paid 17."
    check(endpoint.inputs, counter)
    outputs = [i["output"] for i in endpoint.inputs[-1] if i.get("type") == "function_call_output"]
    assert outputs[1] == "Paid 17."
    assert len(outputs) == 2


async def test_tools_of_mcp_servers_count(
    endpoint: ScriptedResponses, model: OpenAIResponsesModel, client: AsyncContextClient
) -> None:
    session = TurnmillSession("s", client=client)
    config = RunConfig(call_model_input_filter=session.call_model_input_filter)
    endpoint.outputs.append([message("Fine.")])
    params: Any = {"command": sys.executable, "args": [harbour_server.__file__]}

    async with MCPServerStdio(params, client_session_timeout_seconds=60) as harbour:
        agent = Agent(name="Clerk", model=model, mcp_servers=[harbour])
        await Runner.run(agent, "Look.", session=session, run_config=config)

    assert [tool["name"] for tool in endpoint.requests[-1].body["tools"]] == ["find_owner"]
    assert (await client.info("s")).tools_tokens > 20
    assert session.counts.unfiltered == 0


async def test_a_result_that_is_too_large_is_cut_and_the_limit_holds_on(
    endpoint: ScriptedResponses,
    model: OpenAIResponsesModel,
    client: AsyncContextClient,
    counter: Counter,
) -> None:
    session = TurnmillSession("s", client=client, policy=SMALL)
    filtered = RunConfig(call_model_input_filter=session.call_model_input_filter)

    @function_tool
    def look(part: int) -> str:
        """Look into a part of the log."""
        return f"Part {part}: " + "crate of herring, " * 84_000

    agent = Agent(name="Clerk", model=model, tools=[look])
    for at in range(2):
        endpoint.outputs += [[call("look", at, part=at)], [message(f"Part {at} is fine.", at)]]
        await Runner.run(agent, f"Check part {at}.", session=session, run_config=filtered)

    assert session.counts.unfiltered == session.counts.failed == 0
    assert len(endpoint.requests) == 4
    check(endpoint.inputs, counter)
    assert "characters removed" in str(endpoint.inputs[1])
    assert "Check part 1." in str(endpoint.inputs[-1])
