"""Specification 003, row by row: summaries, grounding, quality and checkpoints for a long runner.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.realdata import requires_data, sessions
from tests.specifications.agents import settle
from turnmill import (
    ContextClient,
    ContextManager,
    InvalidPolicy,
    NoCheckpoint,
    Policy,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations


def question(number: int) -> str:
    """What the user of a parcel service asks."""
    return f"Question {number}: where is order #W{number * 7919} of Anna?"


def answer(number: int) -> str:
    """What the agent answers."""
    return (
        f"Order #W{number * 7919} waits in street {number * 3}; it costs ${number * 13}.99 and "
        f"was shipped on 2026-0{number % 9 + 1}-1{number % 9}."
    )


def talk(agent: ContextManager, count: int, *, first: int = 1) -> None:
    """Questions with their answers, each pair one turn."""
    for number in range(first, first + count):
        agent.add_interaction(question(number), answer(number))


# The configuration


def test_the_defaults_are_the_specified_ones() -> None:
    policy = Policy.long_running()

    assert policy.max_tokens == 8192
    assert policy.soft_ratio == 0.8  # summarize_at_ratio
    assert policy.quality_threshold == 0.6
    assert policy.checkpoint_interval == 10
    assert policy.grounding_memories == 5
    assert policy.recent_turns_to_keep == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", "many"),
        ("soft_ratio", 0),
        ("soft_ratio", 1.1),
        ("quality_threshold", -0.1),
        ("quality_threshold", 1.01),
        ("checkpoint_interval", -1),
        ("keep_checkpoints", 101),
        ("grounding_memories", -1),
        ("recent_turns_to_keep", -1),
        ("summarise_at", 0.5),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidPolicy, match=field):
        Policy.long_running(**{field: value})


# A turn


def test_process_turn_says_what_was_grounded_triggered_checkpointed_and_counted(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running(checkpoint_interval=3))
    agents.remember("Anna lives in street 77.")
    agent.add_interaction("Hello.", "Hello, what can I do?")

    first = agent.process_turn("Where does Anna live?")
    agent.add_response("In street 77.")

    assert first.seq == 2
    assert len(first.grounding_used) == 1
    assert first.summarization_triggered is False
    assert first.checkpoint_created is None
    assert first.quality_score == 1.0
    wait_until(lambda: first.token_count >= agent.info().usage.tail > 0, what="counted")
    third = agent.checkpoints()[-1]
    assert (third.seq, third.automatic) == (3, True)


def test_process_turn_says_when_summarization_was_triggered(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=1000, grounding_memories=0))
    for number in range(1, 7):
        assert agent.process_turn(question(number)).summarization_triggered is False
        agent.add_response(answer(number))
    settle(agent)

    result = agent.process_turn("Here is my letter. " + "The street is closed today. " * 120)
    settle(agent)

    assert result.summarization_triggered is True
    assert agent.info().compactions > 0
    assert agent.process_turn("And now?").summarization_triggered is False


def test_process_turn_does_not_wait_when_no_worker_is_there(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, durable=False) as server, ContextClient(server.url) as alone:
        agent = alone.manager("ann", Policy.long_running())
        began = time.monotonic()

        result = agent.process_turn("Is anybody there?")

        assert result.seq == 1
        assert result.grounding_used == ()
        assert time.monotonic() - began < 4.5


def test_messages_estimated_tokens_and_quality_score_are_there_at_any_time(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    assert agent.messages() == []
    assert agent.quality_score() == 1.0
    agent.process_turn("Where is order #W15838?")
    agent.add_response("In street 6.")
    settle(agent)

    assert agent.messages() == [
        {"role": "user", "content": "Where is order #W15838?"},
        {"role": "assistant", "content": "In street 6."},
    ]
    assert agent.estimated_tokens() == agent.read().tokens
    assert 0.0 <= agent.quality_score() <= 1.0


# Grounding


def test_ground_returns_memories_a_summary_and_relevance_scores(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    agent.remember("Anna pays by invoice.")
    agent.remember("Bob pays by card.")

    found = agent.ground("How does Anna pay?", 5)

    assert found.memories[0].text == "Anna pays by invoice."
    assert len(found.relevance_scores) == len(found.memories) == 2
    assert all(0 <= score <= 1 for score in found.relevance_scores)
    assert found.relevance_scores[0] > found.relevance_scores[1]
    assert "Anna pays by invoice." in found.summary


def test_summaries_and_the_turns_they_cover_are_remembered(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 12)
    agent.summarize()

    def found(kind: str) -> list[str]:
        memories = agent.ground("order #W15838 of Anna", 20).memories
        return [memory.text for memory in memories if memory.kind == kind]

    wait_until(lambda: found("summary") and found("turn"), what="both remembered")
    assert all(text.startswith("[context-summary] ") for text in found("summary"))
    assert any(question(2) in text for text in found("turn"))


def test_memories_stand_in_the_context_where_the_policy_gives_them_room(
    agents: ContextClient,
) -> None:
    agents.remember("Anna lives in street 77.")
    agent = agents.manager("ann", Policy.long_running(grounding_ratio=0.1))

    result = agent.process_turn("Where does Anna live?")

    memories, asked = agent.messages()
    assert "street 77" in memories["content"]
    assert asked == {"role": "user", "content": "Where does Anna live?"}
    assert len(result.grounding_used) == 1


# Summarizing when asked


def test_a_forced_summary_says_tokens_before_and_after_turns_and_text(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 20)

    done = agent.summarize()

    assert done is not None
    assert done.turns_summarized == 17
    assert done.tokens_after < done.tokens_before
    assert done.tokens_after == agent.info().usage.total
    assert done.summary == agent.read().summary
    assert "#W7919" in done.summary
    assert agent.messages()[-1]["content"] == answer(20)
    assert agent.info().turns_in_log == 3


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_forced_summary_of_no_more_turns_than_are_kept_does_nothing(
    agents: ContextClient, turns: int
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, turns)
    settle(agent)
    before = agent.messages()

    done = agent.summarize()

    assert done is not None
    assert done.turns_summarized == 0
    assert done.tokens_after == done.tokens_before
    assert done.reason == "no turns beside the newest"
    assert agent.messages() == before
    assert agent.info().compactions == 0


def test_a_summary_is_made_in_the_background_at_the_specified_share(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=2000, soft_ratio=0.8))
    number = 0
    while agent.info().compactions == 0:
        assert agent.info().usage.total <= 1600 + 100
        number += 1
        talk(agent, 1, first=number)
        settle(agent)

    assert agent.read().summary
    assert agent.info().usage.total <= agent.info().limits.target


# Quality


def test_the_quality_of_every_compaction_is_recorded(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=1500))
    for number in range(1, 80):
        talk(agent, 1, first=number)
        if number % 10 == 0:
            settle(agent)
    settle(agent)

    records = [each.record for each in agent.trajectory().compactions]

    assert len(records) > 1
    for record in records:
        assert record.quality is not None
        assert 0 <= record.quality <= 1
        assert set(record.quality_parts) == {
            *("facts", "relevance", "freshness", "session", "validity", "current"),
        }
    assert agent.quality_score() == pytest.approx(records[-1].quality, abs=1e-3)


def test_a_compaction_below_the_threshold_is_not_committed_and_the_next_rung_is_tried(
    agents: ContextClient,
) -> None:
    policy = Policy(max_tokens=4000, strategies=("window", "rolling"), quality_threshold=0.6)
    agent = agents.manager("ann", policy)
    number = 0
    while agent.info().compactions == 0:
        number += 1
        talk(agent, 1, first=number)
        settle(agent)

    [only] = [each.record for each in agent.trajectory().compactions]

    assert only.strategy == "rolling"  # the window before it had lost too much
    assert only.quality is not None
    assert only.quality >= 0.6


def test_when_every_rung_is_below_the_threshold_the_previous_context_stays(
    agents: ContextClient, worker: WorkerProcess
) -> None:
    agent = agents.manager("poor", Policy.long_running(max_tokens=4000, quality_threshold=1.0))
    number = 0

    def refused() -> bool:
        lines = worker.output().splitlines()
        return any("below-quality" in line and "poor" in line for line in lines)

    while agent.info().usage.total <= agent.info().limits.soft:
        number += 1
        talk(agent, 1, first=number)
        wait_until(lambda: agent.info().counted_seq == agent.info().last_seq, what="counted")
    wait_until(refused, what="compaction refused")

    assert agent.info().version == 0
    assert len(agent.messages()) == 2 * number
    assert agent.read().projection is None
    assert agent.quality_score() == 1.0


def test_above_the_urgent_limit_the_best_there_is_gets_committed(agents: ContextClient) -> None:
    policy = Policy.long_running(max_tokens=4000, quality_threshold=1.0)
    agent = agents.manager("ann", policy)
    number = 0
    while agent.info().usage.total <= agent.info().limits.urgent and not agent.info().version:
        number += 1
        talk(agent, 1, first=number)
        wait_until(lambda: agent.info().counted_seq == agent.info().last_seq, what="counted")

    wait_until(lambda: agent.info().version == 1, what="best committed")

    assert agent.info().usage.total <= agent.info().limits.soft
    [only] = [each.record for each in agent.trajectory().compactions]
    assert only.quality is not None
    assert only.quality < 1
    assert only.tokens_before > agent.info().limits.urgent


# Checkpoints


def test_a_checkpoint_has_an_id_and_a_message(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 2)

    made = agent.checkpoint("before the refund")
    named = agent.checkpoint("after it", name="refund")

    assert made
    assert named == "refund"
    assert [(each.id, each.message, each.seq) for each in agent.checkpoints()] == [
        (made, "before the refund", 2),
        ("refund", "after it", 2),
    ]
    assert not any(each.automatic for each in agent.checkpoints())


def test_with_versioning_off_there_is_no_checkpoint_and_nothing_to_roll_back_to(
    agents: ContextClient,
) -> None:
    policy = Policy.long_running(keep_checkpoints=0, checkpoint_interval=2)
    agent = agents.manager("ann", policy)
    talk(agent, 6)

    assert agent.checkpoint("now") is None
    assert agent.process_turn("And?").checkpoint_created is None
    assert agent.checkpoints() == []
    with pytest.raises(NoCheckpoint, match="checkpoints are: none"):
        agent.rollback()


@pytest.mark.parametrize(
    ("fields", "turns", "made"),
    [
        pytest.param({}, 35, [10, 20, 30], id="every-tenth-turn-by-default"),
        pytest.param({"checkpoint_interval": 0}, 12, [], id="none-by-itself"),
        pytest.param(
            {"checkpoint_interval": 1, "keep_checkpoints": 3}, 8, [6, 7, 8], id="oldest-give-way"
        ),
    ],
)
def test_checkpoints_are_made_automatically_at_the_policys_interval(
    agents: ContextClient, fields: dict[str, int], turns: int, made: list[int]
) -> None:
    agent = agents.manager("ann", Policy.long_running(**fields))
    talk(agent, turns)

    assert [each.seq for each in agent.checkpoints()] == made
    assert all(each.automatic for each in agent.checkpoints())
    assert agent.checkpoint("by hand")


# Rollback


def test_a_rollback_restores_the_checkpoint_and_says_how_many_turns_were_lost(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 4)
    made = agent.checkpoint("good")
    before = agent.messages()
    talk(agent, 5, first=5)

    done = agent.rollback()

    assert done.restored == made
    assert done.turns_lost == 5
    assert done.seq == 4
    assert agent.messages() == before
    wait_until(lambda: agent.read().exact, what="counted")


def test_each_rollback_goes_one_checkpoint_further_back(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(checkpoint_interval=2))
    talk(agent, 7)

    done = [agent.rollback() for _ in range(3)]

    assert [(each.seq, each.turns_lost) for each in done] == [(6, 1), (4, 2), (2, 2)]
    with pytest.raises(NoCheckpoint, match="no checkpoint of 'ann' to roll back to"):
        agent.rollback()


def test_a_rollback_over_a_compaction_brings_the_covered_turns_back(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=2000))
    talk(agent, 10)
    agent.checkpoint("early", name="early")
    before = agent.messages()
    for number in range(11, 60):
        talk(agent, 1, first=number)
    settle(agent)
    assert agent.info().watermark > 10

    done = agent.rollback(to="early")

    assert done.restored == "early"
    assert done.turns_lost == 49
    assert agent.messages() == before
    assert agent.info().watermark == 0


def test_a_rollback_to_a_version_restores_the_context_it_committed(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 10)
    first = agent.summarize()
    before = agent.messages()
    talk(agent, 10, first=11)
    agent.summarize()
    assert first is not None

    done = agent.rollback(to=first.version)

    assert done.restored == f"version {first.version}"
    assert done.version == 3
    assert done.turns_lost == 10
    assert agent.messages() == before


@pytest.mark.parametrize("to", ["nowhere", "", 99, 0, -1])
def test_a_rollback_to_what_is_not_there_is_a_typed_error_that_lists_what_is(
    agents: ContextClient, to: str | int
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 2)
    agent.checkpoint("x", name="here")

    with pytest.raises(NoCheckpoint, match=re.escape(f"{to!r}") + ".*'here'"):
        agent.rollback(to=to)
    assert agent.info().last_seq == 2
    assert agent.info().version == 0


def test_nothing_is_destroyed_by_a_rollback(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 3)
    agent.checkpoint("good")
    talk(agent, 2, first=4)
    agent.rollback()
    talk(agent, 2, first=6)

    turns = agent.trajectory().turns

    assert agent.transcript().count(" — rolled back") == 2
    assert [turn.seq for turn in turns] == [1, 2, 3, 4, 5, 6, 7]
    assert [turn.state for turn in turns] == ["kept"] * 3 + ["rolled-back"] * 2 + ["kept"] * 2
    assert [turn.messages[0]["content"] for turn in turns] == [question(n) for n in range(1, 8)]
    assert [m["content"] for m in agent.messages() if m["role"] == "user"] == [
        question(n) for n in (1, 2, 3, 6, 7)
    ]


# Real conversations


@requires_data
@pytest.mark.parametrize("name", ["tau"])
def test_real_agents_roll_back_to_exactly_what_they_read_before(
    agents: ContextClient, name: str
) -> None:
    found = max(sessions(name, 30), key=lambda one: int(one["tokens_o200k"]))
    system, *said = found["messages"]
    agent = agents.manager(name, Policy.long_running(max_tokens=4000), system["content"][:3000])
    half = len(said) // 2
    for message in said[:half]:
        agent.push(message)
    settle(agent)
    agent.checkpoint("half", name="half")
    before = agent.messages()
    for message in said[half:]:
        agent.push(message)
    settle(agent)

    done = agent.rollback(to="half")

    assert done.turns_lost == len(said) - half
    assert agent.messages() == before
    assert violations(before) == []
    assert len(agent.trajectory().turns) == len(said)
