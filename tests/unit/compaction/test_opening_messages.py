"""What a session begins with may be several messages: an example, and then what is asked."""

from __future__ import annotations

from dataclasses import replace

from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import groups
from turnmill_worker.compaction.strategies import choose
from turnmill_worker.tokens import CountedOnce, counter_for

from .snapshots import snapshot_of

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


def test_a_task_is_known_before_its_answer_is_counted() -> None:
    task = user("Please mend parse_header. " + "It must accept an empty line. " * 300)
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    answer: JsonMessage = {"role": "assistant", "content": None, "tool_calls": [call]}
    pending = ((answer,), ({"role": "tool", "tool_call_id": "c", "content": "ok"},))
    snapshot = snapshot_of([task], Policy(max_tokens=2048), pending=50, pending_messages=pending)

    assert [request.seq for request in heard_in(snapshot, COUNTER).requests(Seq(1))] == [1]
