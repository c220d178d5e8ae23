"""Specification 004, row by row: each old step of an agent loop becomes one short summary.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.realdata import requires_data, sessions
from tests.specifications.agents import settle
from turnmill import (
    ContextClient,
    ContextManager,
    Policy,
    StoredContext,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.codec import encode_json
from turnmill.contract.estimate import estimate_tokens
from turnmill.contract.legality import violations
from turnmill.contract.render import render_head

SMALL = Policy.iterations(max_tokens=2000, summary_ratio=0.3)
"""Summarized after some eight iterations of ``step``."""


def step(agent: ContextManager, number: int) -> list[dict[str, Any]]:
    """One iteration of an agent loop, each of its messages a turn."""
    messages = step_messages(number)
    for message in messages:
        agent.push({"messages": [message], "iteration": number})
    return messages


def step_messages(number: int) -> list[dict[str, Any]]:
    """The agent thinks, calls a tool, and sees the result."""
    call = {"id": f"call-{number}", "type": "function"}
    arguments = json.dumps({"path": f"src/part_{number}.py"})
    return [
        {
            "role": "assistant",
            "content": f"Step {number}: I open part {number} because test T{number * 17} fails.",
            "tool_calls": [{**call, "function": {"name": "read_file", "arguments": arguments}}],
        },
        {
            "role": "tool",
            "tool_call_id": f"call-{number}",
            "content": f"def part_{number}(): return {number * 31}  # fails with error E{number}. "
            f"The value must be {number * 37}. "
            + " ".join(f"Line {at} of part {number} is as it was." for at in range(12)),
        },
    ]


def steps(agent: ContextManager, count: int, *, first: int = 1) -> list[list[dict[str, Any]]]:
    """Iterations one after the other, workers at rest after each."""
    done = []
    for number in range(first, first + count):
        done.append(step(agent, number))
        settle(agent)
    return done


def commits(agent: ContextManager) -> list[StoredContext]:
    """Every context committed so far, by version."""
    return [each.context for each in agent.trajectory().compactions]


# Estimates


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("hello", 2), ("x" * 7, 2), ("x" * 8, 3), ("天" * 7, 2)]
)
def test_estimate_tokens_is_characters_over_three_and_a_half_rounded_up(
    text: str, tokens: int
) -> None:
    assert estimate_tokens(text) == tokens == math.ceil(len(text) / 3.5)


def test_estimated_tokens_is_exact_once_a_worker_has_counted(agents: ContextClient) -> None:
    agent = agents.manager("a", SMALL)
    steps(agent, 3)

    assert agent.estimated_tokens() == agent.read().tokens
    assert agent.read().exact


def test_needs_summarization_is_true_above_the_maximum_and_not_at_it(
    tmp_path: Path,
) -> None:
    with EmbeddedRedis(tmp_path, durable=False) as server, ContextClient(server.url) as alone:
        agent = alone.manager("a", SMALL)
        number = 0
        while agent.estimated_tokens() <= SMALL.max_tokens:
            assert not agent.needs_summarization()
            number += 1
            step(agent, number)

        assert agent.needs_summarization()


def test_the_maximum_is_150000_tokens_and_three_iterations_are_kept_by_default() -> None:
    policy = Policy.iterations()

    assert policy.max_tokens == policy.limits(0).soft == 150_000
    assert policy.keep_recent_iterations == 3
    assert policy.strategies[0] == "iterations"


# Summaries


def test_each_old_iteration_becomes_one_summary_event_of_a_few_sentences(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", SMALL)
    number = 0
    while not agent.read().events:
        number += 1
        steps(agent, 1, first=number)

    events = agent.read().events

    assert [event.iteration for event in events] == list(range(1, number - 2))
    assert all(event.iteration == event.last_iteration for event in events)
    for event in events:
        assert (event.first_seq, event.last_seq) == (2 * event.iteration - 1, 2 * event.iteration)
        assert f"part_{event.iteration}" in event.text or f"part {event.iteration}" in event.text
        assert 0 < len(event.text.splitlines()) <= 3
        assert estimate_tokens(event.text) < 120


def test_the_events_of_old_iterations_leave_and_the_recent_ones_stay_unchanged(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", SMALL)
    done: list[list[dict[str, Any]]] = []
    while not agent.read().events:
        done += steps(agent, 1, first=len(done) + 1)

    messages = agent.messages()

    recent = [message for one in done[-3:] for message in one]
    assert messages[-len(recent) :] == recent
    assert len(messages) == len(agent.read().events) + len(recent)
    assert not any(message in messages for one in done[:-3] for message in one)
    assert violations(messages) == []


@pytest.mark.parametrize("keep", [1, 5])
def test_as_many_recent_iterations_stay_as_the_policy_says(
    agents: ContextClient, keep: int
) -> None:
    policy = SMALL.model_copy(update={"keep_recent_iterations": keep})
    agent = agents.manager("a", policy)
    number = 0
    while not agent.read().events:
        number += 1
        steps(agent, 1, first=number)

    assert [event.iteration for event in agent.read().events] == list(range(1, number - keep + 1))


def report(number: int) -> dict[str, Any]:
    """A long answer, of some 690 tokens."""
    return {
        "role": "assistant",
        "content": f"Report {number}. " + "All the piers are clear now. " * 97,
    }


def test_where_the_recent_iterations_do_not_fit_the_oldest_of_them_is_summarized_not_dropped(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", Policy.iterations(max_tokens=2000))
    reports = [report(number) for number in (1, 2, 3)]
    for number, message in enumerate(reports, 1):
        agent.push({"messages": [message], "iteration": number})
    settle(agent)

    assert [event.iteration for event in agent.read().events] == [1]
    assert agent.messages()[-2:] == reports[1:]


def test_summarize_makes_events_of_old_iterations_when_asked_for(agents: ContextClient) -> None:
    agent = agents.manager("a", Policy.iterations())
    done = steps(agent, 6)

    result = agent.summarize()

    assert result is not None
    assert result.turns_summarized == 6
    assert result.tokens_after < result.tokens_before
    assert [event.iteration for event in agent.read().events] == [1, 2, 3]
    assert all(event.text in result.summary for event in agent.read().events)
    assert agent.messages()[3:] == [message for one in done[3:] for message in one]


# Which turns are an iteration


def test_without_numbers_a_users_request_and_what_follows_is_an_iteration(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", SMALL)
    asked = 0
    while not agent.read().events:
        asked += 1
        agent.push({"role": "user", "content": f"Request {asked}: check pier {asked * 3}."})
        for part in range(3):
            text = f"Part {part}: pier {asked * 3} has {asked * 19 + part} crates of Anna. "
            text += "The others are at the gate and wait there. " * 5
            agent.push({"role": "assistant", "content": text})
        settle(agent)

    events = agent.read().events

    assert [event.iteration for event in events] == list(range(1, asked - 2))
    assert [(event.first_seq, event.last_seq) for event in events] == [
        (4 * number + 1, 4 * number + 4) for number in range(len(events))
    ]


# The formatted string


def test_context_injection_is_the_formatted_string_of_all_summaries(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", SMALL)
    assert agent.push({"role": "user", "content": "Mend the build."})
    assert agent.context_injection() == ""
    number = 0
    while not agent.read().events:
        number += 1
        steps(agent, 1, first=number)

    text = agent.context_injection()

    assert text.startswith("## Summary of earlier iterations\n\n[Iteration ")
    for event in agent.read().events:
        assert f"[Iteration {event.iteration}, turns {event.first_seq}-{event.last_seq}" in text
        assert event.text in text


# Append-only, until they outgrow their share


def test_summaries_are_only_appended_so_that_the_prefix_stays_the_same_bytes(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", Policy.iterations(max_tokens=6000, summary_ratio=0.45))
    number, reads = 0, []
    while agent.info().compactions < 2:
        number += 1
        steps(agent, 1, first=number)
        reads.append(encode_json(agent.messages())[:-1])

    first, second = (encode_json(render_head(context))[:-1] for context in commits(agent))

    assert second.startswith(first)
    assert len(second) > len(first)
    # Between two compactions a context only grows.
    grown = [after.startswith(before) for before, after in itertools.pairwise(reads)]
    assert grown.count(False) == 2


def test_the_older_summaries_are_folded_when_all_outgrow_their_share(
    agents: ContextClient,
) -> None:
    policy = SMALL
    agent = agents.manager("a", policy)
    for number in range(1, 60):
        step(agent, number)
        if number % 3 == 0:
            settle(agent)
    settle(agent)

    events = agent.read().events

    assert events[0].iteration == 1
    assert events[0].last_iteration > 1
    ends = [(event.iteration, event.last_iteration) for event in events]
    assert all(last + 1 == first for (_, last), (first, _) in itertools.pairwise(ends))
    assert agent.info().usage.summary <= policy.max_tokens * policy.summary_ratio
    assert f"[Iterations 1-{events[0].last_iteration}, turns 1-" in agent.context_injection()


# In the background, after each push


def test_iterations_are_summarized_in_the_background_while_the_agent_goes_on(
    agents: ContextClient,
) -> None:
    agent = agents.manager("a", SMALL)
    for number in range(1, 61):
        step(agent, number)  # never waits
        assert agent.read().tokens <= SMALL.max_tokens
    settle(agent)

    info = agent.info()
    assert info.usage.total <= info.limits.soft
    assert info.compactions > 0
    assert len(agent.trajectory().turns) == 120


# Real conversations


@requires_data
@pytest.mark.parametrize("name", ["coding", "tau"])
def test_real_agent_loops_keep_their_recent_iterations_word_for_word(
    agents: ContextClient, name: str
) -> None:
    found = max(sessions(name, 40), key=lambda one: int(one["tokens_o200k"]))
    system, *said = found["messages"]
    policy = Policy.iterations(max_tokens=6000)
    agent = agents.manager(name, policy, system["content"][:2000])
    # An assistant's message begins an iteration, as in an agent loop.
    number, newest = 0, []
    for message in said:
        number += message["role"] == "assistant"
        agent.push({"messages": [message], "iteration": number})
        newest.append((number, message))
        assert violations(agent.messages()) == []
    settle(agent)

    read = agent.read()
    assert read.events
    assert agent.info().usage.total <= agent.info().limits.soft
    first_kept = max(event.last_iteration for event in read.events) + 1
    kept = [message for at, message in newest if at >= first_kept]
    assert [m.get("content") for m in read.messages[-len(kept) :]] == [
        m.get("content") for m in kept
    ]
