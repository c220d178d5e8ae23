"""The ledger beside a summary: room for it, what is shown, and what a rollback takes back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.compaction.snapshots import snapshot_of
from turnmill import Policy
from turnmill.contract.context import JsonMessage, Receipt, StoredContext, SummaryEvent
from turnmill.contract.names import Seq, Version
from turnmill.contract.quality_weights import QualityWeights
from turnmill.contract.render import render_head
from turnmill_worker.compaction.ledger.budget import (
    facts_after,
    up_to,
    with_facts,
)
from turnmill_worker.compaction.ledger.selection import Fact
from turnmill_worker.compaction.plan import Plan, Records
from turnmill_worker.compaction.quality.score import Scorer
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.tokens import counter_for

COUNTER = counter_for()
COUNT = COUNTER.count_messages

ORDER = {"role": "user", "content": "Please cancel order #W7730021 and write to kim@mail.example."}
CHATTER = {
    "role": "assistant",
    "content": "I am glad to help you with all of that, of course. " * 8,
}


def planned(*strategies: str, **fields: Any) -> Plan:
    policy = Policy(max_tokens=1024, strategies=strategies, **fields)
    found = plan(snapshot_of([ORDER, *[CHATTER] * 9], policy), COUNTER)
    assert found is not None
    return with_facts(found, COUNTER.count)


def known(*texts: str) -> tuple[Fact, ...]:
    said = [(Seq(seq), {"role": "user", "content": text}) for seq, text in enumerate(texts, 1)]
    return facts_after((), Told(Records(said).units), 10_000, COUNTER.count)


def many(number: int = 60) -> tuple[Fact, ...]:
    return known(*(f"Parcel #W{at * 7919:07} goes to box {at}." for at in range(1, number)))


def test_a_fact_the_summary_does_not_state_stands_beside_it_in_a_user_message() -> None:
    context = splice(planned("rolling"), ["Kim wants something cancelled."], COUNTER)

    summary, facts = render_head(context)
    assert summary["content"].endswith("\n[End]")
    assert facts["role"] == "user"
    assert facts["content"].startswith("[Facts kept word for word]\n1 user: ")
    assert facts["content"].endswith("\n[End of facts]")
    assert "#W7730021" in context.ledger
    assert "kim@mail.example" in context.ledger
    assert context.tokens == COUNT([summary, facts])


def test_a_fact_the_summary_states_is_not_said_twice() -> None:
    context = splice(planned("rolling"), ["Kim wants #W7730021 cancelled."], COUNTER)

    assert "#W7730021" not in context.ledger
    assert "kim@mail.example" in context.ledger


def test_a_receipt_has_facts_beside_it() -> None:
    context = splice(planned("window"), [], COUNTER)

    assert context.receipts
    assert "#W7730021" in context.ledger


def test_where_the_window_has_no_room_for_facts_the_receipt_stands_alone() -> None:
    policy = Policy(max_tokens=1024, strategies=("window",), ledger_ratio=0.9)
    big = {"role": "user", "content": "word " * 430}
    found = plan(snapshot_of([ORDER, CHATTER, CHATTER, CHATTER, CHATTER, big], policy), COUNTER)
    assert found is not None

    context = splice(with_facts(found, COUNTER.count), [], COUNTER)

    assert context.receipts
    assert context.watermark == 5


def test_a_summary_that_leaves_promised_facts_no_room_is_refused() -> None:
    found = planned("rolling")
    assert found.request is not None
    assert found.request.ledger_tokens > 0
    budget = found.request.whole_tokens
    text = "word " * (budget - 1)

    with pytest.raises(SummaryRejected, match="no room for the facts"):
        splice(found, [text.strip()], COUNTER)


def test_events_that_are_only_appended_to_have_no_facts_before_them() -> None:
    policy = Policy.iterations(max_tokens=1024, keep_recent_iterations=1, quality_threshold=0)
    found = plan(snapshot_of([ORDER, CHATTER] * 8, policy), COUNTER)
    assert found is not None
    found = with_facts(found, COUNTER.count)

    context = splice(found, ["Something was cancelled."] * len(found.requests), COUNTER)

    assert context.events
    assert context.ledger == ""
    assert found.facts


def test_facts_shown_stay_as_they_are_while_nothing_is_covered() -> None:
    result = {"role": "tool", "tool_call_id": "c", "content": "row 17 of the list, " * 300}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asking = {"role": "assistant", "content": None, "tool_calls": [call]}
    stored = StoredContext(version=Version(1), summary="So far.", ledger="1 user: order #W1")
    facts = known("My order is #W1234567.")
    messages: list[JsonMessage] = [asking, result, *[CHATTER] * 3]
    policy = Policy(max_tokens=1800, strategies=("elide",))
    found = plan(snapshot_of(messages, policy, stored=stored, facts=facts), COUNTER)
    assert found is not None
    found = with_facts(found, COUNTER.count)

    context = splice(found, [], COUNTER)

    assert found.strategy == "elide"
    assert context.ledger == stored.ledger
    assert found.facts == facts


def test_the_ledger_is_no_part_of_a_managed_view_s_system_message() -> None:
    stored = StoredContext(
        summary="A view.",
        managed=True,
        ledger="1 user: order #W1",
        receipts=(Receipt(by="window", first_seq=1, last_seq=2, turns=2, tokens=9),),
    )

    system, user = render_head(stored)

    assert system == {"role": "system", "content": "Context summary (managed): A view."}
    assert user["role"] == "user"
    assert "order #W1" in user["content"]


def test_what_changes_least_stands_first_in_messages_of_its_own() -> None:
    event = SummaryEvent(iteration=1, last_iteration=1, first_seq=1, last_seq=2, text="looked")

    receipt = Receipt(by="window", first_seq=3, last_seq=4, turns=2, tokens=9)
    before = StoredContext(summary="Some prose.", events=(event,), watermark=Seq(2))
    after = before.model_copy(
        update={"watermark": Seq(4), "receipts": (receipt,), "ledger": "1 user: order #W1"}
    )

    *head, beside = render_head(after)

    assert head == render_head(before)
    assert beside["content"].startswith("[Turns 3-4 left out to fit")
    assert "order #W1" in beside["content"]


# the quality score


def test_a_fact_in_the_ledger_counts_as_kept_and_its_marks_as_nothing() -> None:
    def scored(context: StoredContext) -> float:
        scorer = Scorer(
            covered=Records([(Seq(1), ORDER)]),
            previous=[],
            tail=[],
            kept_turns=3,
            wanted_turns=3,
            turns=4,
            compactions=0,
            weights=QualityWeights(),
        )
        return scorer.score(render_head(context)).score

    prose = StoredContext(summary="Somebody wants something.")
    beside = prose.model_copy(
        update={"ledger": "1 user: Please cancel order #W7730021; write to kim@mail.example"}
    )
    empty = prose.model_copy(update={"ledger": "1 user:"})

    assert scored(beside) > scored(prose) + 0.3
    assert scored(empty) == scored(prose)


# rolling back


def test_facts_of_turns_that_were_rolled_back_are_gone() -> None:
    facts = known("Order #W1111111 is mine.", "Hello.", "Order #W3333333, too.")

    assert [fact.text for fact in up_to(facts, 2)] == ["#W1111111"]


def test_a_value_replaced_by_a_turn_that_was_rolled_back_holds_again() -> None:
    label = "the agreed price is"
    facts = known(f"For the red lamp {label} $40.", "Hello.", f"For the red lamp {label} $55.")
    assert [fact.until for fact in facts] == [3, 0]

    (left,) = up_to(facts, 2)

    assert (left.text, left.until, left.last_seq) == ("$40", 0, 1)


def test_nothing_changes_up_to_the_newest_turn() -> None:
    facts = many()

    assert up_to(facts, 60) == facts
