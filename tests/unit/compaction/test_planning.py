"""Which turns a compaction covers, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.compaction.snapshots import snapshot_of
from turnmill import Policy, Usage
from turnmill.contract.context import JsonMessage, StoredContext, SummaryEvent
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Plan, groups
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies import choose
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.compaction.strategies.elide import fit_newest
from turnmill_worker.compaction.with_digest import with_digest
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.pipeline.decide import Compact, Skip, decide
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import CountedOnce, TokenCounter, counter_for

# What a session begins with may be several messages: an example, and then what is asked.

COUNTER = CountedOnce(counter_for())
TASK = "Now solve this: parse_header crashes on an empty line.\n(Open file: n/a)\nbash-$"


def user(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def worked(steps: int) -> list[JsonMessage]:
    """An agent's orders in its own text, and what a shell answers in user messages."""
    step = [
        {"role": "assistant", "content": "I look at it.\n```\nopen header.py\n```"},
        user("[File: header.py (80 lines total)]\n" + "    x = 1\n" * 6 + "bash-$"),
    ]
    return step * steps


def test_they_are_covered_together_and_the_task_stays_a_request() -> None:
    example = user("Here is an example of such a task. " + "It was done in this way. " * 220)
    policy = Policy(max_tokens=2048)
    # Without the example, the others would fit.
    snapshot = snapshot_of([example, user(TASK), *worked(2)], policy)
    assert snapshot.usage.total > snapshot.limits.soft
    assert snapshot.usage.total - snapshot.turns[0].tokens < snapshot.limits.target

    plan = choose.plan(snapshot, COUNTER)

    assert plan is not None
    assert plan.cut == 2
    assert [request.seq for request in plan.asked] == [1, 2]
    assert plan.asked[1].text == TASK


def test_they_stay_apart_where_nobody_answers_or_one_is_pinned() -> None:
    talk = [user("One."), user("Two."), user("Three."), user("Four.")]
    policy = Policy(max_tokens=2048)
    asked = snapshot_of([*talk[:2], *worked(1)], policy)
    first, *others = asked.turns
    pinned = replace(asked, turns=(replace(first, pinned=True), *others))

    assert len(groups(snapshot_of(talk, policy))) == 4
    assert len(groups(asked)) == 3
    assert len(groups(pinned)) == 4


# A summary has all the room that the turns beside it leave.


def drafted(snapshot: Snapshot) -> Draft:
    plan = choose.plan(snapshot, COUNTER)
    assert plan is not None
    return Writer(lambda _: [ExtractiveSummarizer()], TemplateLoader()).best(plan, COUNTER)


def told(size: int, about: str) -> JsonMessage:
    parts = [
        f"The {about} {n} reached pier {n * 37 % 101} on tide {n * 53 % 97}." for n in range(size)
    ]
    return {"role": "user", "content": " ".join(parts)}


def test_what_a_coarse_cut_leaves_of_the_target_is_the_summarys() -> None:
    policy = Policy(max_tokens=8192)
    snapshot = snapshot_of([told(400, "ship"), told(60, "barge")], policy)

    context = drafted(snapshot).context

    target, tail = snapshot.limits.target, snapshot.turns[-1].tokens
    assert 0.95 * target <= context.tokens + tail <= target


# What a provider's prompt cache keeps of a context when it is compacted.

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


# iterations


def test_an_iteration_that_does_not_fit_has_its_older_part_summarized_not_dropped() -> None:
    policy = Policy.iterations(max_tokens=3000)
    steps = [message for number in range(40) for message in said(number, 24)]

    context = committed(snapshot_of([REQUEST, *steps], policy))

    assert context.strategy == "iterations"
    assert context.receipts == ()
    assert [(event.iteration, event.first_seq) for event in context.events] == [(1, 1)]
    assert 1 < context.watermark == context.events[0].last_seq < len(steps)


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


# The decision, and what is never committed


@pytest.mark.parametrize("part", ["system", "summary", "tail", "pending"])
def test_every_part_of_a_context_counts_towards_the_soft_limit(part: str) -> None:
    limits = Policy(max_tokens=4096).limits(0)
    within = Usage(tail=limits.soft // 2)

    over = replace(within, **{part: getattr(within, part) + limits.soft // 2 + 1})

    assert isinstance(decide(within, limits), Skip)
    assert isinstance(decide(over, limits), Compact)


@pytest.mark.parametrize(
    ("text", "budget", "pending", "told"),
    [
        pytest.param("All is well.", 200, 0, "", id="good"),
        pytest.param(" \n", 200, 0, "empty", id="empty"),
        pytest.param("All is well. " * 12, 20, 0, "tokens, allowed", id="over-its-budget"),
        pytest.param("All is well.", 200, 1_000, "the goal is", id="over-the-goal"),
    ],
)
def test_what_a_plan_did_not_ask_for_is_never_committed(
    text: str, budget: int, pending: int, told: str
) -> None:
    talk = [message for number in range(60) for message in said(number, 24)]
    found = planned(snapshot_of(talk, Policy(max_tokens=2048, strategies=("rolling",))))
    assert found.request is not None
    given = replace(
        found,
        request=replace(found.request, budget_tokens=budget, ledger_tokens=0),
        snapshot=replace(found.snapshot, pending=pending, memo={}),
    )

    if not told:
        assert splice(given, [text], COUNTER).watermark == found.cut
        return
    with pytest.raises(SummaryRejected, match=told):
        splice(given, [text], COUNTER)


class Counting(TokenCounter):
    """Counts how often it is asked, too."""

    basis = COUNTER.basis

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return len(text)


def test_a_turn_of_thousands_of_messages_takes_no_longer_than_its_length() -> None:
    asked = []
    for length in (200, 2_000):
        messages = tuple(user("x") for _ in range(length))
        one = LoggedTurn(Seq(1), messages, messages, 5 * length)
        counter = Counting()
        snapshot = replace(snapshot_of([user("x")], Policy()), turns=(one,))
        fit_newest(snapshot, 100, counter)
        asked.append(counter.asked)

    assert asked[1] < 20 * asked[0]
