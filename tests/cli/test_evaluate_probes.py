"""Planted facts: unique, never between a call and its result, and scored by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.cli.test_evaluate import TALK, chat_of, counter, metered
from turnmill_cli.evaluate.methods import method
from turnmill_cli.evaluate.planted_facts import KINDS, PLANTED, plant, probe


@pytest.mark.parametrize("kind", KINDS)
def test_every_planted_fact_is_unique_and_none_tears_a_call_from_its_result(kind: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    host: list[dict[str, Any]] = [
        TALK[0],
        asks,
        {"role": "tool", "tool_call_id": "1", "content": "none"},
    ] * 20

    said, facts = plant(kind, list(enumerate(host)), counter.count)

    assert len({fact.value for fact in facts}) == len({fact.topic for fact in facts}) == PLANTED
    assert all(fact.value in said[fact.seq - 1][1]["content"] for fact in facts)
    assert all(
        (before[1].get("tool_calls") is not None) == (after[1]["role"] == "tool")
        for before, after in pairwise(said)
    )


def test_with_the_whole_budget_every_planted_fact_survives() -> None:
    found = probe(list(enumerate(chat_of(80))), method("extract", metered()), 2.0, counter.count)

    assert {mean.value for mean in found.associated.values()} == {1.0}
    assert list(found.by_compactions) == list(range(1, 11))


def test_a_window_keeps_the_newest_planted_facts_only() -> None:
    found = probe(
        list(enumerate(chat_of(200))),
        method("window", metered()),
        0.3,
        counter.count,
        kinds=["id"],
    )

    assert found.by_compactions[1].value == 1.0
    assert found.by_compactions[10].value == 0.0


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("depot limit was 2017 kg\n{t}: limit 5003 kg", 1.0),
        ("{t}: limit 5003 kg\n{t}: limit 2017 kg", 0.0),
        ("{t}: limit 5003 kg\n{t}: limit 2017 kg (until turn 40)", 1.0),
        ("{t}: limit 2017 kg", 0.0),
    ],
)
def test_an_update_survives_where_nothing_later_states_the_old_value(
    text: str, kept: float
) -> None:
    said = text.format(t="northern depot")

    found = probe(list(enumerate(TALK)), lambda *_: said, 1.0, counter.count, kinds=["update"])

    assert found.associated["update"].total == kept


def test_only_users_lay_down_planted_rules() -> None:
    said, facts = plant("rule", list(enumerate(TALK)), counter.count)

    assert {said[fact.seq - 1][1]["role"] for fact in facts} == {"user"}
