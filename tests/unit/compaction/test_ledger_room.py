"""The room that a summary leaves for the ledger beside it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.compaction.test_ledger_budget import COUNTER, known, many, planned
from turnmill.contract.names import Seq
from turnmill_worker.compaction.ledger.budget import (
    certain_values,
    facts_after,
    reserve,
    shown_beside,
)
from turnmill_worker.compaction.plan import Records, SummaryRequest
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer


def request(budget: int = 400) -> SummaryRequest:
    return SummaryRequest(previous="", records=Records(), budget_tokens=budget)


def test_no_more_is_set_apart_than_the_facts_need() -> None:
    facts = known("Order #W7730021 is mine.")

    made = reserve(request(), facts, 100, COUNTER.count)

    assert 0 < made.ledger_tokens < 20
    assert made.whole_tokens == 400


def test_a_summary_keeps_the_least_it_needs_to_say_anything() -> None:
    made = reserve(request(70), many(), 69, COUNTER.count)

    assert (made.budget_tokens, made.ledger_tokens) == (32, 38)


def test_where_hardly_a_fact_would_fit_sentences_take_the_room() -> None:
    assert reserve(request(300), many(), 31, COUNTER.count).ledger_tokens == 0


def test_no_room_is_set_apart_for_what_only_a_system_message_says() -> None:
    began = [
        (Seq(at), {"role": "system", "content": f"Session {at}, 3 July 20{at}"})
        for at in range(20, 40)
    ]
    facts = facts_after((), Told(Records(began).units), 1000, COUNTER.count)

    assert len(facts) == 20
    assert reserve(request(), facts, 100, COUNTER.count).ledger_tokens == 0


def test_a_policy_without_a_ledger_keeps_no_facts() -> None:
    found = planned("rolling", ledger_ratio=0.0)

    assert found.facts == ()
    assert [each.ledger_tokens for each in found.requests] == [0]


def test_memories_an_agent_was_shown_are_no_facts_of_the_conversation() -> None:
    memory = {"role": "user", "name": "memories", "content": "Order #W7730021 was mine."}

    assert facts_after((), Told(Records([(Seq(1), memory)]).units), 1000, COUNTER.count) == ()


@given(st.integers(0, 200), st.lists(st.integers(1, 59)))
def test_what_a_model_is_told_is_kept_is_shown_unless_its_text_says_it(
    most: int, named: list[int]
) -> None:
    asked = reserve(request(), many(), most, COUNTER.count)
    text = " ".join(f"#W{at * 7919:07}" for at in named)
    told = certain_values(asked, COUNTER.count)

    shown = shown_beside(text, asked.facts, asked.ledger_tokens, COUNTER.count)

    assert COUNTER.count(shown) <= asked.ledger_tokens
    values = [fact.text for fact in asked.facts if fact.text in told and fact.kind == "id"]
    assert all(value in shown or value in text for value in values)


@given(st.integers(60, 600), st.sampled_from([0.05, 0.1, 0.5, 0.9]))
def test_the_extractive_summarizer_leaves_room_for_what_it_does_not_state(
    budget: int, share: float
) -> None:
    said = Records(
        (Seq(at), {"role": "user", "content": f"Parcel #W{at * 7919:07} goes to box {at}."})
        for at in range(1, 60)
    )
    asked = replace(request(budget), records=said)
    asked = reserve(asked, many(), int(budget * share), COUNTER.count)

    text = ExtractiveSummarizer().summarize(asked, COUNTER).text

    left = asked.whole_tokens - COUNTER.count(text)
    shown = shown_beside(text, asked.facts, asked.ledger_tokens, COUNTER.count)
    assert COUNTER.count(shown) <= left


def test_room_for_facts_that_the_text_states_itself_is_the_text_s() -> None:
    said = [
        f"Parcel #W{at * 7919:07} goes to the blue door in street number {at} of our town."
        for at in range(1, 12)
    ]
    whole = COUNTER.count("\n".join(f"{at} user: {text}" for at, text in enumerate(said, 1)))
    records = Records(
        (Seq(at), {"role": "user", "content": text}) for at, text in enumerate(said, 1)
    )
    asked = replace(request(whole - 10), records=records)
    asked = reserve(asked, known(*said), 80, COUNTER.count)
    assert asked.ledger_tokens == 80

    text = ExtractiveSummarizer().summarize(asked, COUNTER).text

    assert asked.budget_tokens < COUNTER.count(text) <= asked.whole_tokens
    shown = shown_beside(text, asked.facts, asked.ledger_tokens, COUNTER.count)
    assert COUNTER.count(f"{text}\n{shown}") <= asked.whole_tokens
