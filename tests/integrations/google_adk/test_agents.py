"""Several agents in one session, rewinds, and what a request has beside the session's events."""

from __future__ import annotations

import pytest

pytest.importorskip("google.adk")

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from tests.integrations.google_adk.clerk import (
    APP,
    SESSION,
    USER,
    ClerkEndpoint,
    Office,
    assert_legal,
    call,
    clerk,
    decide,
    find_owner,
    find_ship,
    model,
    text,
)
from tests.integrations.scripted import Said, question
from tests.specifications.agents import settled
from turnmill import AsyncContextClient, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.context import JsonMessage
from turnmill.integrations.google_adk import TurnmillSessionService, sessions


def transferring(messages: list[JsonMessage]) -> Said:
    """The chief gives each question to the clerk, who goes on until the next one."""
    is_chief = '"chief"' in text(messages[0])
    newest = text(messages[-1])
    if is_chief and "Question" in newest:
        word = newest.split()[1].rstrip(":")
        return Said(calls=((f"to-{word}", "transfer_to_agent", {"agent_name": "clerk"}),))
    return decide(messages)


async def test_agents_that_hand_over_to_each_other_share_a_context(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    endpoint.decide = transferring
    helper = clerk(endpoint, disallow_transfer_to_parent=True)
    chief = LlmAgent(name="chief", model=model(endpoint), sub_agents=[helper])
    office = Office(chief, service)

    for number in range(1, 13):
        await office.ask(question(number))
        if number % 4 == 0:
            settled(agents, office.name)

    assert office.plugin.counts.failed == 0
    assert office.plugin.counts.curated > 5
    hard = agents.info(office.name).limits.hard
    told = [text(each) for messages in endpoint.shown for each in messages]
    assert any(each.startswith("For context: ") for each in told)
    assert_legal(endpoint.shown, hard - agents.info(office.name).tools_tokens)
    # Nobody is shown another's calls as its own.
    for messages in endpoint.shown:
        is_chief = '"chief"' in text(messages[0])
        called = {
            each["function"]["name"]
            for message in messages
            for each in message.get("tool_calls") or ()
        }
        assert called <= ({"transfer_to_agent"} if is_chief else {"find_ship", "find_owner"})


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning")
async def test_agents_on_branches_get_what_adk_gives_them_and_tell_the_others(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    branches = [clerk(endpoint, name=f"clerk{at}") for at in range(2)]
    both = ParallelAgent(name="both", sub_agents=branches)
    last = LlmAgent(name="last", model=model(endpoint), tools=[find_ship, find_owner])
    office = Office(SequentialAgent(name="all", sub_agents=[both, last]), service)
    endpoint.decide = lambda messages: (
        Said("Both have said it.") if '"last"' in text(messages[0]) else decide(messages)
    )

    for number in range(1, 7):
        await office.ask(question(number))
        settled(agents, office.name)

    assert office.plugin.counts.failed == 0
    of_last = [messages for messages in endpoint.shown if '"last"' in text(messages[0])]
    assert len(of_last) == office.plugin.counts.curated + office.plugin.counts.whole == 6
    assert office.plugin.counts.curated > 0
    assert_legal(of_last, agents.info(office.name).limits.hard)
    assert not any(message.get("tool_calls") for messages in of_last for message in messages)


async def test_what_was_rewound_is_not_in_the_context(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    office = Office(clerk(endpoint), service)
    for number in range(1, 11):
        seen = await office.ask(question(number))
    settled(agents, office.name)
    kept, before = len(await office.events()), agents.info(office.name)

    await office.runner.rewind_async(
        user_id=USER, session_id=SESSION, rewind_before_invocation_id=seen[0].invocation_id
    )
    rewound = agents.info(office.name)
    await office.ask(question(11))
    settled(agents, office.name)
    await office.ask(question(12))

    assert (rewound.last_seq, service.replayed) == (before.last_seq, 0)
    assert (before.version > 0, rewound.version) == (True, before.version + 1)
    said = [text(message) for message in endpoint.shown[-1]]
    assert office.plugin.counts.failed == 0
    assert not any(question(10) in each for each in said)
    assert any(question(11) in each for each in said)
    assert_legal(endpoint.shown, agents.info(office.name).limits.hard)
    assert len(await office.events()) == kept + 1 + 8  # a rewind deletes no event


async def test_rewinds_that_no_worker_does_are_counted_and_leave_the_same(
    redis_server: EmbeddedRedis,
    namespace: str,
    endpoint: ClerkEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "REWIND_S", 0.1)
    async with AsyncContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker()
    ) as client:
        office = Office(clerk(endpoint), TurnmillSessionService(client, Policy()))
        seen = [(await office.ask(question(number)))[0] for number in (1, 2, 3)]
        for event in (seen[2], seen[1], seen[0]):
            await office.runner.rewind_async(
                user_id=USER, session_id=SESSION, rewind_before_invocation_id=event.invocation_id
            )
        await office.ask(question(4))
        context = await client.read(office.name)

    assert (office.service.replayed, office.plugin.counts.failed) == (3, 0)
    for messages in (context.messages, endpoint.shown[-1]):
        asked = [text(each) for each in messages if each["role"] == "user"]
        assert asked == [question(4)]


def pending(ship: str) -> dict[str, str]:
    """Asks a pilot."""
    return {"status": f"the pilot of {ship} was asked"}


async def test_a_result_that_comes_late_is_beside_its_call(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    tools = [find_ship, find_owner, LongRunningFunctionTool(pending)]
    office = Office(clerk(endpoint, tools=tools), service)
    asked, wait = Said(calls=(call("pending", "S1"),)), Said("We wait for him.")
    endpoint.decide = lambda messages: wait if messages[-1]["role"] == "tool" else asked
    await office.ask("Question 0: ask the pilot of S1.")
    endpoint.decide = decide
    for number in range(1, 9):
        await office.ask(question(number))
    settled(agents, office.name)

    answer = types.FunctionResponse(
        id=asked.calls[0][0], name="pending", response={"status": "he comes"}
    )
    run = office.runner.run_async(
        user_id=USER,
        session_id=SESSION,
        new_message=types.Content(role="user", parts=[types.Part(function_response=answer)]),
    )
    assert [event async for event in run]
    await office.ask(question(9))

    assert_legal(endpoint.shown, agents.info(office.name).limits.hard)
    assert any("he comes" in text(message) for message in endpoint.shown[-3])
    assert office.plugin.counts.failed == 0


async def test_instructions_that_adk_puts_among_the_contents_stay_there(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    office = Office(
        clerk(endpoint, static_instruction="Be brief.", instruction="Today: {day}"), service
    )
    await service.create_session(
        app_name=APP, user_id=USER, session_id=SESSION, state={"day": "Monday"}
    )
    for number in range(1, 11):
        await office.ask(question(number))
        if number == 8:
            settled(agents, office.name)

    assert office.plugin.counts.failed == 0
    assert office.plugin.counts.curated > 3
    for messages in endpoint.shown:
        assert sum("Today: Monday" in text(message) for message in messages) == 1
    assert_legal(endpoint.shown, agents.info(office.name).limits.hard)
