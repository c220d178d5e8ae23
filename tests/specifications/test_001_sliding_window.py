"""Specification 001, row by row: the sliding window of a terminal agent.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.realdata import requires_data, sessions
from tests.specifications.agents import settled, worker_with_archive
from turnmill import (
    ContextClient,
    ContextManager,
    InvalidTurn,
    Policy,
    SystemPromptTooLarge,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill_worker.tokens import count_message, count_request, counter_for

PROMPT = "You are a helpful assistant."
ROOMY = 100_000
"""Tokens no test here comes near: what happens, happens because of the interactions' number."""

Message = dict[str, Any]


def question(number: int) -> str:
    """What the user asks in an interaction."""
    return f"Question {number}: what is in /srv/data/{number * 7919}?"


def answer(number: int) -> str:
    """What the assistant answers."""
    return f"Answer {number}: {number} files, the newest is report-{number * 31}.txt."


def talk(agent: ContextManager, count: int, *, first: int = 1) -> None:
    """Interactions, one after the other."""
    for number in range(first, first + count):
        agent.add_interaction(question(number), answer(number))


def pairs(*numbers: int) -> list[Message]:
    """The interactions as messages."""
    return [
        message
        for number in numbers
        for message in (
            {"role": "user", "content": question(number)},
            {"role": "assistant", "content": answer(number)},
        )
    ]


def exact(messages: list[Message]) -> int:
    """What a model is billed for these messages."""
    return count_request(counter_for(), messages)


def kept(messages: list[Message]) -> list[int]:
    """Numbers of the interactions there are; each must be whole."""
    asked = [m["content"] for m in messages if str(m["content"]).startswith("Question")]
    answered = [m["content"] for m in messages if str(m["content"]).startswith("Answer")]
    numbers = [int(text.split(":")[0].split()[1]) for text in asked]
    assert [int(text.split(":")[0].split()[1]) for text in answered] == numbers
    return numbers


# Counting: tiktoken, with a fallback


def test_tokens_are_counted_as_tiktoken_counts_them() -> None:
    counter = counter_for()

    assert counter.count("tiktoken is great!") == 6
    assert counter.count("お誕生日おめでとう") == 8  # both numbers: OpenAI's cookbook
    assert counter.basis == "o200k_base/2/gpt-4o"


def test_a_worker_without_any_vocabulary_counts_by_the_fallback_and_says_so(
    tmp_path: Path,
) -> None:
    for library in ("tiktoken", "bpe_openai"):
        (tmp_path / "broken" / library).mkdir(parents=True)
        (tmp_path / "broken" / library / "__init__.py").write_text("raise ImportError\n")
    estimate = counter_for("heuristic")
    with (
        EmbeddedRedis(tmp_path / "redis", durable=False) as server,
        worker_with_archive(server, tmp_path, PYTHONPATH=str(tmp_path / "broken")),
        ContextClient(server.url) as client,
    ):
        policy = Policy.sliding_window(max_tokens=1000, max_interactions=5)
        agent = client.manager("shell", policy, PROMPT)
        talk(agent, 12)
        info = settled(client, "shell")

        messages = agent.messages()

    assert info.basis == "heuristic/2/gpt-4o"
    assert info.total_tokens == count_request(estimate, messages)
    assert kept(messages) == [8, 9, 10, 11, 12]


# max_interactions and max_tokens


def test_the_newest_interactions_are_kept_and_the_oldest_leave(agents: ContextClient) -> None:
    policy = Policy.sliding_window(max_interactions=5, max_tokens=ROOMY)
    agent = agents.manager("shell", policy, PROMPT)
    talk(agent, 12)

    info = settled(agents, "shell")

    prompt, receipt, *rest = agent.messages()
    assert prompt == {"role": "system", "content": PROMPT}
    assert receipt["content"].startswith("[Turns 1-7 left out to fit: 7 turns, ")
    assert rest == pairs(8, 9, 10, 11, 12)
    assert info.conversation_interactions == 5


def test_a_question_and_its_answer_leave_together_when_they_came_apart(
    agents: ContextClient,
) -> None:
    policy = Policy.sliding_window(max_interactions=2, max_tokens=ROOMY)
    agent = agents.manager("shell", policy)
    for number in range(1, 6):
        agent.push({"role": "user", "content": question(number)})
        settled(agents, "shell")
        agent.add_response(answer(number))
        settled(agents, "shell")

    *_, receipt = [m["content"] for m in agent.messages()[:-4]]

    assert receipt.startswith("[Turns 1-6 left out to fit: 6 turns, ")
    assert agent.messages()[-4:] == pairs(4, 5)


def test_the_oldest_interactions_leave_when_the_tokens_exceed_their_limit(
    agents: ContextClient,
) -> None:
    policy = Policy.sliding_window(max_tokens=1000)
    agent = agents.manager("shell", policy, PROMPT)

    for number in range(1, 61):
        talk(agent, 1, first=number)
        assert exact(agent.messages()) <= 1000
    info = settled(agents, "shell")

    numbers = kept(agent.messages())
    assert numbers == list(range(numbers[0], 61))
    assert 1 < numbers[0] < 60
    assert info.total_tokens <= info.limits.soft


def test_whichever_limit_is_reached_first_counts(agents: ContextClient) -> None:
    policy = Policy.sliding_window(max_tokens=1000, max_interactions=3)
    agent = agents.manager("shell", policy, PROMPT)

    talk(agent, 6)
    settled(agents, "shell")
    by_number = kept(agent.messages())
    for number in (7, 8, 9):
        agent.add_interaction(question(number), answer(number) + " and more" * 200)
    info = settled(agents, "shell")

    assert by_number == [4, 5, 6]
    assert kept(agent.messages())[-1] == 9
    assert len(kept(agent.messages())) < 3
    assert info.under_limit


def test_the_system_prompts_tokens_are_counted_in(agents: ContextClient) -> None:
    bare = agents.manager("bare", Policy.sliding_window(max_tokens=1000))
    prompted = agents.manager("prompted", Policy.sliding_window(max_tokens=1000), PROMPT * 80)
    for first in range(1, 31, 3):  # a worker that falls behind would cut later, and keep more
        talk(bare, 3, first=first)
        talk(prompted, 3, first=first)
        with_prompt, without = settled(agents, "prompted"), settled(agents, "bare")

    assert with_prompt.total_tokens <= 1000
    assert with_prompt.system_prompt_tokens > 400
    assert with_prompt.conversation_interactions < without.conversation_interactions


# A question with its answer


def test_the_limits_may_be_changed_while_the_agent_talks(agents: ContextClient) -> None:
    agent = agents.manager("shell", Policy.sliding_window(max_tokens=ROOMY))
    talk(agent, 20)
    settled(agents, "shell")

    agent.set_policy(Policy.sliding_window(max_tokens=ROOMY, max_interactions=4))
    settled(agents, "shell")
    four = kept(agent.messages())
    agent.set_policy(Policy.sliding_window(max_tokens=ROOMY, max_interactions=2))
    settled(agents, "shell")

    assert four == [17, 18, 19, 20]
    assert kept(agent.messages()) == [19, 20]


def test_add_interaction_appends_a_question_with_its_answer(agents: ContextClient) -> None:
    """The specification's own example, literally."""
    agent = agents.manager("shell", Policy.sliding_window(max_interactions=5, max_tokens=4000))
    agent.set_system_prompt("You are a helpful assistant.")
    agent.add_interaction("Hello", "Hi there!")
    agent.add_interaction("How are you?", "I'm doing well, thank you for asking!")

    assert agent.messages() == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi there!"},
        {"role": "user", "content": "How are you?"},
        {"role": "assistant", "content": "I'm doing well, thank you for asking!"},
    ]


# What the model gets


def test_messages_come_with_the_system_prompt_or_without(agents: ContextClient) -> None:
    agent = agents.manager("shell", Policy.sliding_window(), PROMPT)
    talk(agent, 2)

    assert agent.messages() == [{"role": "system", "content": PROMPT}, *pairs(1, 2)]
    assert agent.messages(include_system=False) == pairs(1, 2)


# The system prompt


def test_a_longer_system_prompt_trims_the_conversation_at_once(agents: ContextClient) -> None:
    agent = agents.manager("shell", Policy.sliding_window(max_tokens=1000), PROMPT)
    talk(agent, 14)
    before = settled(agents, "shell")

    agent.set_system_prompt(PROMPT * 80)
    at_once = agent.messages()
    after = settled(agents, "shell")

    assert exact(at_once) <= 1000
    assert at_once[0]["content"] == PROMPT * 80
    assert exact(agent.messages()) <= 1000
    assert after.conversation_interactions < before.conversation_interactions
    assert kept(agent.messages())[-1] == 14


def test_a_prompt_that_leaves_no_room_is_refused_and_the_old_one_stays(
    agents: ContextClient,
) -> None:
    agent = agents.manager("shell", Policy.sliding_window(max_tokens=1000), PROMPT)
    talk(agent, 1)

    with pytest.raises(SystemPromptTooLarge, match="hard limit is 1000"):
        agent.set_system_prompt(PROMPT * 200)
    with pytest.raises(InvalidTurn, match="system_prompt: must be a str, got int"):
        agent.set_system_prompt(7)  # type: ignore[arg-type]

    assert agent.messages() == [{"role": "system", "content": PROMPT}, *pairs(1)]


# The numbers


def test_info_says_what_the_context_consists_of(agents: ContextClient) -> None:
    agent = agents.manager("shell", Policy.sliding_window(max_tokens=1000), PROMPT)
    talk(agent, 2)

    info = settled(agents, "shell")

    messages = agent.messages()
    assert info.total_messages == len(messages) == 5
    assert info.conversation_interactions == 2
    assert info.total_tokens == exact(messages)
    assert info.system_prompt_tokens == count_message(counter_for(), messages[0])
    assert info.conversation_tokens == info.total_tokens - info.system_prompt_tokens
    assert info.under_limit


# In a line, cleared, and empty


def test_describe_is_the_session_in_one_line(agents: ContextClient) -> None:
    agent = agents.manager("shell", Policy.sliding_window(max_tokens=1000), PROMPT)
    talk(agent, 2)
    info = settled(agents, "shell")

    told = agent.describe()

    assert told.startswith(f"2 interactions, {info.total_tokens} of 1,000 tokens (10 system prompt")
    assert "turns 1-2 word for word" in told
    assert "\n" not in told
    agent.clear()
    assert "no turns word for word" in agent.describe()


def test_clear_leaves_the_system_prompt_and_nothing_else(agents: ContextClient) -> None:
    policy = Policy.sliding_window(max_interactions=3, max_tokens=ROOMY)
    agent = agents.manager("shell", policy, PROMPT)
    talk(agent, 8)
    settled(agents, "shell")

    agent.clear()

    assert agent.is_empty()
    assert agent.messages() == [{"role": "system", "content": PROMPT}]
    info = settled(agents, "shell")
    assert (info.total_messages, info.conversation_interactions) == (1, 0)
    assert info.conversation_tokens == info.usage.REPLY


# Real dialogues


def window_of(messages: list[Message], most: int) -> list[Message]:
    """The newest requests with all that follows them."""
    starts = [
        at
        for at, (before, message) in enumerate(itertools.pairwise(messages), 1)
        if message["role"] == "user" and before["role"] != "user"
    ]
    return messages[starts[-most] :] if len(starts) > most else messages[1:]


@requires_data
def test_real_dialogues_keep_their_newest_requests_whole(agents: ContextClient) -> None:
    """Tool calls and their results belong to the request they serve."""
    policy = Policy.sliding_window(max_interactions=3, max_tokens=ROOMY)
    found = {each["session_id"]: each["messages"] for each in sessions("tau", 16)}
    dialogues = {name: each for name, each in found.items() if window_of(each, 3) != each[1:]}
    assert len(dialogues) > 8
    for name, messages in dialogues.items():
        agents.open(name, policy, messages[0]["content"])
        agents.push_many((name, message) for message in messages[1:])

    for name, messages in dialogues.items():
        info = settled(agents, name)
        window = window_of(messages, 3)
        read = agents.read(name).messages
        assert info.conversation_interactions == 3
        # What the user laid down or asked for before the window stays; nothing else does.
        *said, receipt = read[1 : -len(window)]
        assert all(text["content"].startswith(("[Rules", "[The", "[What")) for text in said)
        assert "left out to fit" in receipt["content"]
        assert read[-len(window) :] == window
        assert not violations(window)
