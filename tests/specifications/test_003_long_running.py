"""Specification 003, row by row: summaries, grounding, quality and checkpoints for a long runner.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.realdata import requires_data, sessions
from tests.specifications.agents import settle
from tests.worker.harness import keys_of, long_turns
from turnmill import (
    AsyncContextClient,
    ContextClient,
    ContextManager,
    InvalidInput,
    InvalidPolicy,
    NoCheckpoint,
    NotAnswered,
    Policy,
    QualityWeights,
    SessionBusy,
    SilentWaker,
    UnknownSession,
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


def states(agent: ContextManager) -> list[str]:
    """What became of each turn ever pushed, by seq."""
    return [turn.state for turn in agent.trajectory().turns]


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


def test_two_fields_that_contradict_each_other_are_both_named() -> None:
    with pytest.raises(InvalidPolicy, match=r"target_ratio 0\.5 .*soft_ratio=0\.4"):
        Policy.long_running(soft_ratio=0.4)
    with pytest.raises(InvalidPolicy, match=r"grounding_ratio.*grounding_memories"):
        Policy.long_running(grounding_ratio=0.1, grounding_memories=0)
    with pytest.raises(InvalidPolicy, match="facts, relevance, freshness, session"):
        QualityWeights(facts=0, relevance=0, freshness=0, session=0)


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


def test_process_turn_returns_the_checkpoint_it_made(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(checkpoint_interval=2))

    made = [agent.process_turn(question(number)).checkpoint_created for number in range(1, 5)]

    assert made[0] is made[2] is None
    assert made[1] != made[3]
    assert [each.id for each in agent.checkpoints()] == [made[1], made[3]]


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


def test_process_turn_without_a_broker_still_takes_the_turn(
    store: EmbeddedRedis, namespace: str
) -> None:
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as silent:
        agent = silent.manager("ann", Policy.long_running())

        assert agent.process_turn("Hello?").seq == 1


def test_the_same_turn_processed_again_is_not_stored_twice(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())

    first = agent.process_turn("Hello?", turn_id="t-1")
    again = agent.process_turn("Hello?", turn_id="t-1")

    assert again.seq == first.seq == agent.info().last_seq == 1


async def test_the_asynchronous_handle_does_the_same(async_agents: AsyncContextClient) -> None:
    agent = await async_agents.manager("ann", Policy.long_running(checkpoint_interval=2))

    first = await agent.process_turn("Where is my order?")
    await agent.add_response("In street 3.")

    assert first.seq == 1
    assert [each.seq for each in await agent.checkpoints()] == [2]
    assert [m["role"] for m in await agent.messages()] == ["user", "assistant"]
    assert await agent.quality_score() == 1.0
    assert await agent.estimated_tokens() > 0
    assert (await agent.rollback()).turns_lost == 0


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


def test_summaries_are_stored_as_memories_for_future_grounding(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 12)
    agent.summarize()

    def summaries() -> list[str]:
        found = agent.ground("order #W15838 of Anna", 20)
        return [memory.text for memory in found.memories if memory.kind == "summary"]

    wait_until(summaries, what="summary remembered")
    assert all(text.startswith("[context-summary] ") for text in summaries())


def test_turns_that_left_the_context_can_be_grounded(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 12)
    agent.summarize()

    def found() -> list[str]:
        return [memory.text for memory in agent.ground("order #W15838", 5).memories]

    wait_until(lambda: any(question(2) in text for text in found()), what="turn 2 found")


def test_grounding_stays_within_its_namespace(agents: ContextClient, store: EmbeddedRedis) -> None:
    agents.remember("The safe's number is 4711.")
    with ContextClient(store.url, namespace=f"{agents.namespace}-other") as other:
        other.remember("The safe is green.")

        found = other.ground("What is the safe's number?", 10)

        assert [memory.text for memory in found.memories] == ["The safe is green."]


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


def test_a_wrong_question_to_the_memories_is_refused_before_it_is_asked(
    agents: ContextClient,
) -> None:
    agent = agents.manager("ann", Policy.long_running())
    with pytest.raises(InvalidInput, match=r"k 0 must be in 1\.\.100"):
        agent.ground("Anna", 0)
    with pytest.raises(InvalidInput, match="query: must be a str"):
        agent.ground(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not blank"):
        agent.remember("  ")


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


def test_a_second_forced_summary_takes_over_what_the_first_one_said(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 10)
    first = agent.summarize()
    talk(agent, 10, first=11)

    second = agent.summarize()

    assert first is not None
    assert second is not None
    assert second.turns_summarized == 10
    assert second.version == first.version + 1
    assert "#W7919" in second.summary


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


def test_a_summary_of_an_unknown_session_is_a_typed_error(agents: ContextClient) -> None:
    agent = agents.manager("nobody")

    with pytest.raises(UnknownSession, match="'nobody'"):
        agent.summarize()
    with pytest.raises(UnknownSession, match="'nobody'"):
        agent.rollback()
    with pytest.raises(UnknownSession, match="'nobody'"):
        agent.checkpoint("now")


def test_a_session_another_worker_is_at_is_busy_and_said_to_be(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 10)
    settle(agent)
    agents._redis.plain(("SET", keys_of(agents, "ann").lease, "somebody", "PX", 60_000))

    with pytest.raises(SessionBusy, match="another worker is compacting 'ann'"):
        agent.summarize()
    assert agent.info().version == 0


def test_without_waiting_a_summary_is_made_all_the_same(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 20)

    assert agent.summarize(wait=False) is None

    wait_until(lambda: agent.read().summary, what="summary made")


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


def test_every_checkpoint_interval_turns_there_is_one_automatically(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 35)

    assert [each.seq for each in agent.checkpoints()] == [10, 20, 30]
    assert all(each.automatic for each in agent.checkpoints())


def test_an_interval_of_zero_makes_none_by_itself(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(checkpoint_interval=0))
    talk(agent, 12)

    assert agent.checkpoints() == []
    assert agent.checkpoint("by hand")


def test_the_oldest_checkpoints_give_way_to_new_ones(agents: ContextClient) -> None:
    policy = Policy.long_running(checkpoint_interval=1, keep_checkpoints=3)
    agent = agents.manager("ann", policy)
    talk(agent, 8)

    assert [each.seq for each in agent.checkpoints()] == [6, 7, 8]


def test_the_interval_can_be_changed_while_running(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 4)
    agent.set_policy(Policy.long_running(checkpoint_interval=5))
    talk(agent, 4, first=5)

    assert [each.seq for each in agent.checkpoints()] == [5]


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


def test_a_named_checkpoint_can_be_restored_again_and_again(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 3)
    agent.checkpoint("as agreed", name="agreed")
    before = agent.messages()
    for _ in range(3):
        talk(agent, 2, first=4)
        assert agent.rollback(to="agreed").turns_lost == 2
        assert agent.messages() == before


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


def test_a_rollback_is_recorded_beside_the_compactions(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    talk(agent, 4)
    agent.checkpoint("good")
    settle(agent)
    after = agent.info().usage.tail
    talk(agent, 4, first=5)
    settle(agent)
    before = agent.info().usage.tail
    agent.rollback()

    [made] = [each.record for each in agent.trajectory().compactions]

    assert made.strategy == "rollback"
    assert made.last_seq == 4
    assert (made.tokens_before, made.tokens_after) == (before, after)


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


def test_after_a_rollback_the_session_goes_on_as_any_other(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=2000))
    talk(agent, 30)
    settle(agent)
    agent.checkpoint("half", name="half")
    talk(agent, 20, first=31)
    agent.rollback(to="half")
    talk(agent, 60, first=51)
    settle(agent)

    info = agent.info()
    assert info.usage.total <= info.limits.soft
    assert violations(agent.messages()) == []
    assert agent.messages()[-1]["content"] == answer(110)
    assert states(agent) == ["kept"] * 30 + ["rolled-back"] * 20 + ["kept"] * 60
    assert agent.info().usage.total == agent.read().tokens


def test_what_was_rolled_back_is_no_longer_remembered(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running())
    agent.checkpoint("empty", name="empty")
    talk(agent, 12)
    agent.summarize()
    wait_until(lambda: agent.ground("order #W15838", 5).memories, what="turns remembered")

    agent.rollback(to="empty")

    wait_until(lambda: not agent.ground("order #W15838", 5).memories, what="turns forgotten")


def test_a_rollback_is_atomic_against_a_compaction_under_way(
    agents: ContextClient, store: EmbeddedRedis, worker: WorkerProcess
) -> None:
    policy = Policy(max_tokens=2000, strategies=("rolling", "window"), quality_threshold=0)
    agent = agents.manager("ann", policy)
    talk(agent, 3)
    settle(agent)
    agent.checkpoint("good", name="good")
    before = agent.messages()
    lease = keys_of(agents, "ann").lease
    data = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(worker.log.parent / "data")}
    with WorkerProcess(store.url, worker.log.parent, name="second", env=data):
        for message in long_turns(8, kilobytes=80):
            agent.push(message)
        wait_until(lambda: agents._redis.plain(("EXISTS", lease)), what="compaction under way")

        done = agent.rollback(to="good")

        assert done.turns_lost == 8
        assert agent.messages() == before
        settle(agent)
        time.sleep(1)  # whatever was under way has come back by now

    assert agent.messages() == before
    assert agent.info().watermark == 0
    assert states(agent) == ["kept"] * 3 + ["rolled-back"] * 8


def test_a_rollback_is_atomic_against_concurrent_pushes(agents: ContextClient) -> None:
    agent = agents.manager("ann", Policy.long_running(max_tokens=50_000))
    talk(agent, 5)
    agent.checkpoint("good", name="good")
    pushed: list[int] = []

    def push() -> None:
        for number in range(300):
            done = agent.push({"role": "user", "content": f"Meanwhile {number}."})
            pushed.append(done.seq)

    pushing = threading.Thread(target=push)
    pushing.start()
    wait_until(lambda: len(pushed) > 50, what="pushes under way")
    done = agent.rollback(to="good")
    pushing.join()
    settle(agent)

    found = states(agent)
    gone = found.count("rolled-back")
    assert pushed == list(range(6, 306))  # each got its place, whatever happened
    assert found == ["kept"] * 5 + ["rolled-back"] * gone + ["kept"] * (300 - gone)
    assert done.turns_lost == gone >= 50
    kept = [m["content"] for m in agent.messages()][10:]
    assert kept == [f"Meanwhile {number}." for number in range(gone, 300)]


def test_a_rollback_no_worker_takes_up_is_withdrawn_and_says_which_queue(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, durable=False) as server, ContextClient(server.url) as alone:
        agent = alone.manager("ann", Policy.long_running())
        talk(agent, 2)
        agent.checkpoint("x")
        talk(agent, 2, first=3)

        with pytest.raises(NotAnswered, match=r"nothing was done.*queue 'compact'"):
            agent.rollback(timeout_s=0.5)
        assert agent.info().last_seq == 4
        assert len(agent.messages()) == 8


# Real conversations


@requires_data
def test_a_long_real_conversation_stays_within_limits_and_can_be_asked_about(
    agents: ContextClient,
) -> None:
    [found] = sessions("locomo", 1)
    said = found["messages"][1:301]
    agent = agents.manager("friends", Policy.long_running(max_tokens=4000))
    for at, message in enumerate(said, 1):
        agent.push(message)
        if at % 50 == 0:
            assert agent.read().tokens <= 4000
            settle(agent)

    records = [each.record for each in agent.trajectory().compactions]
    assert len(records) > 1
    assert [turn.messages[0]["content"] for turn in agent.trajectory().turns] == [
        message["content"] for message in said
    ]
    wait_until(lambda: agents.info("friends").turns_covered == 0, what="archived")
    found_again = agent.ground("new job as a Financial Analyst", 5)
    assert any("Financial Analyst" in memory.text for memory in found_again.memories)


@requires_data
@pytest.mark.parametrize("name", ["tau", "coding"])
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
