"""What the values that pass through a compaction remember of each other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from turnmill import Policy
from turnmill.contract.context import EMPTY, JsonMessage
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies import choose, registry
from turnmill_worker.compaction.strategies.elide import elide
from turnmill_worker.errors import InvalidSettings, UnknownStrategy
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


def test_a_strategy_that_nobody_registered_is_passed_over() -> None:
    snapshot = after_a_long_result()
    policy = snapshot.policy.model_copy(update={"strategies": ("dream", "elide")})

    found = choose.plan(replace(snapshot, policy=policy), COUNTER)

    assert found is not None
    assert found.strategy == "elide"


def test_a_policy_of_strategies_that_nobody_registered_says_which_there_are() -> None:
    snapshot = after_a_long_result()
    policy = snapshot.policy.model_copy(update={"strategies": ("dream",)})

    with pytest.raises(UnknownStrategy, match=r"no strategy dream: there are elide, images"):
        choose.plan(replace(snapshot, policy=policy), COUNTER)


def test_a_plan_has_the_name_of_the_strategy_that_made_its_elisions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {**registry._REGISTERED})
    registry.register("hush", registry.Elides(elide))
    snapshot = after_a_long_result()
    policy = snapshot.policy.model_copy(update={"strategies": ("hush", "window")})

    found = choose.plan(replace(snapshot, policy=policy), COUNTER)

    assert found is not None
    assert found.strategy == "hush"


@pytest.mark.parametrize("strategy", [registry.Covers(lambda _, __: None), "elide"])
def test_a_name_has_one_strategy(strategy: registry.Strategy) -> None:
    with pytest.raises(InvalidSettings, match="strategy 'elide'"):
        registry.register("elide", strategy)


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
