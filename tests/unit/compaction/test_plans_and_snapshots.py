"""What the values that pass through a compaction remember of each other."""

from __future__ import annotations

import json
from typing import get_args

from turnmill import Policy
from turnmill.contract.context import EMPTY, JsonMessage
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import StrategyName
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies import choose
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.tokens import CountedOnce, counter_for

COUNTER = CountedOnce(counter_for())


def logged(seq: int, message: JsonMessage) -> LoggedTurn:
    return LoggedTurn(Seq(seq), (message,), (message,), COUNTER.count_messages([message]))


def after_a_long_result() -> Snapshot:
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    messages: list[JsonMessage] = [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "All is well with the pier. " * 300},
        *({"role": "user", "content": f"And pier {at}?"} for at in range(6)),
    ]
    return Snapshot(
        namespace=Namespace("n"),
        session=SessionId("s"),
        epoch="1",
        revision="7",
        policy=Policy(max_tokens=2048),
        system_tokens=0,
        stored=EMPTY,
        turns=tuple(logged(seq, message) for seq, message in enumerate(messages, 1)),
        counted_seq=Seq(len(messages)),
    )


def test_every_strategy_a_policy_may_name_is_known() -> None:
    assert set(choose._STRATEGIES) == set(get_args(StrategyName))


def test_a_plan_knows_what_it_was_planned_from() -> None:
    snapshot = after_a_long_result()

    found = choose.plan(snapshot, COUNTER)

    assert found is not None
    assert found.strategy == "elide"
    assert found.snapshot.usage.total < snapshot.usage.total
    assert found.snapshot.before == snapshot
    assert snapshot.before is snapshot


def test_what_was_pushed_later_is_left_out_of_an_earlier_state() -> None:
    snapshot = after_a_long_result()

    earlier = snapshot.as_of(Seq(3))

    assert [turn.seq for turn in earlier.turns] == [1, 2, 3]
    assert (earlier.counted_seq, earlier.pending) == (3, 0)


def test_a_note_of_an_awaited_summary_is_read_by_workers_of_other_releases() -> None:
    made = AwaitedSummary(batch="b", file="f", nonce="n", model="m", digest="d")

    note = made.of(after_a_long_result()).model_dump_json(by_alias=True)

    assert json.loads(note)["settings"] == "7"
    assert AwaitedSummary.model_validate_json(note).revision == "7"
