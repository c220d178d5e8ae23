"""What a provider's prompt cache keeps of a context when it is compacted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.compaction.snapshots import snapshot_of
from turnmill import Policy
from turnmill.contract.context import JsonMessage, StoredContext, SummaryEvent
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.compaction.with_digest import with_digest
from turnmill_worker.tokens import counter_for

COUNTER = counter_for()
COUNT = COUNTER.count_messages

REQUEST: JsonMessage = {"role": "user", "content": "Look through all the files of the harbour."}


def looked(number: int, words: int) -> list[JsonMessage]:
    """A call and its result."""
    call = {"name": "read_file", "arguments": f'{{"path": "pier_{number}.py"}}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {
            "role": "tool",
            "tool_call_id": f"c{number}",
            "content": f"pier {number} at depth {number * 37} " + "clear water " * words,
        },
    ]


def said(number: int, words: int) -> list[JsonMessage]:
    return [{"role": "assistant", "content": f"Step {number}: " + "I go on. " * words}]


def planned(snapshot: Snapshot) -> Plan:
    found = plan(snapshot, COUNTER)
    assert found is not None
    return with_digest(found, COUNTER)


def committed(snapshot: Snapshot) -> StoredContext:
    """The context after the plan, each of its texts a few words."""
    found = planned(snapshot)
    return splice(found, ["Piers were looked at."] * len(found.requests), COUNTER)


# shortening


def test_once_one_old_result_has_to_be_shortened_all_bulky_ones_are() -> None:
    results = [message for number in range(9) for message in looked(number, 150)]
    snapshot = snapshot_of([REQUEST, *results, *said(1, 4)], Policy(max_tokens=3200))

    found = planned(snapshot)

    # The first alone would not do, the first four would; the newest three turns stay.
    assert found.strategy == "elide"
    assert [elision.seq for elision in found.snapshot.stored.elisions] == list(range(3, 18, 2))


def test_shortening_may_end_above_the_target_where_a_summary_may_not() -> None:
    talk = [message for number in range(14) for message in said(number, 26)]
    results = [message for number in range(4) for message in looked(number, 250)]
    policy = Policy(max_tokens=4096)
    limits = policy.limits(0)

    snapshot = snapshot_of([*talk, *results, *said(99, 4)], policy)
    shortened = planned(snapshot)
    summarizing = policy.model_copy(update={"strategies": ("rolling",)})
    covered = planned(replace(snapshot, policy=summarizing))

    assert shortened.strategy == "elide"
    assert limits.target < shortened.snapshot.usage.total < limits.soft
    assert covered.strategy == "rolling"
    assert covered.snapshot.aim == limits.target


# iterations


def test_an_iteration_that_does_not_fit_has_its_older_part_summarized_not_dropped() -> None:
    policy = Policy.iterations(max_tokens=3000)
    steps = [message for number in range(40) for message in said(number, 24)]

    context = committed(snapshot_of([REQUEST, *steps], policy))

    assert context.strategy == "iterations"
    assert context.receipts == ()
    assert [(event.iteration, event.first_seq) for event in context.events] == [(1, 1)]
    assert 1 < context.watermark == context.events[0].last_seq < len(steps)


def test_what_follows_a_part_has_the_number_of_its_iteration() -> None:
    policy = Policy.iterations(max_tokens=3000)
    part = SummaryEvent(iteration=4, last_iteration=4, first_seq=2, last_seq=9, text="looked")
    stored = StoredContext(watermark=Seq(9), events=(part,))
    rest = [message for number in range(20) for message in said(number, 24)]
    new = [message for number in range(20) for message in said(number, 24)]

    went_on = committed(snapshot_of([*rest, REQUEST, *new], policy, stored))
    dropped = committed(
        snapshot_of([*rest, REQUEST, *new], policy, replaced(stored, watermark=Seq(12)))
    )

    assert [event.iteration for event in went_on.events] == [4, 4]
    # A window left something out in between: nobody knows whose rest this is.
    assert [event.iteration for event in dropped.events] == [4, 5]


def replaced(stored: StoredContext, **fields: Any) -> StoredContext:
    return stored.model_copy(update=fields)


def test_events_stay_where_they_are_when_a_window_drops_turns() -> None:
    part = SummaryEvent(iteration=1, last_iteration=1, first_seq=1, last_seq=9, text="looked")
    stored = StoredContext(watermark=Seq(9), events=(part,), summary="Piers.")
    stored = replaced(stored, tokens=COUNT(render_head(stored)))
    steps = [message for number in range(40) for message in said(number, 24)]

    context = committed(snapshot_of(steps, Policy.sliding_window(max_tokens=3000), stored))

    before, after = render_head(stored), render_head(context)
    assert context.receipts
    assert after[: len(before)] == before
