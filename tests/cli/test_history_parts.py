"""What `history` and `diff` say of compactions."""

from __future__ import annotations

import pytest

from turnmill.contract.context import (
    EMPTY,
    Elision,
    OpenRequest,
    PinnedTurn,
    Receipt,
    StoredContext,
    SummaryEvent,
)
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Seq, Version
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import CommittedContext
from turnmill_cli.commands.history import _print_steps, changes, summary_diff

# --- diff changes ---------------------------------------------------------------------------------

RECEIPT = Receipt(by="window", first_seq=1, last_seq=9, turns=7, tokens=1200)
EVENT = SummaryEvent(iteration=2, last_iteration=4, first_seq=3, last_seq=8, text="looked\ntwice")
ELISION = Elision(
    seq=5, index=1, message={"role": "tool", "content": "…"}, tokens_before=900, tokens_after=40
)
RULE = Rule(seq=Seq(12), text="never\nby plane", revised=Seq(20))
REQUEST = OpenRequest(seq=Seq(3), text="book a table", first=True)
PIN = PinnedTurn(seq=2, messages=({"role": "user", "content": "keep this"},))


def test_the_summaries_differ_by_lines() -> None:
    old = StoredContext(version=Version(1), summary="one\ntwo\nthree")
    new = StoredContext(version=Version(2), summary="one\n2\nthree")

    assert summary_diff(old, new) == [
        *("--- version 1", "+++ version 2", "@@ -1,3 +1,3 @@"),
        *(" one", "-two", "+2", " three"),
    ]


def test_facts_that_came_and_went_are_told_with_their_turn() -> None:
    old = StoredContext(version=Version(1), ledger="1 user: order #W1; to Bern\n3 call: id=7")
    new = StoredContext(version=Version(2), ledger="1 user: order #W1; until May\n3 call: id=7")

    removed, added = changes(old, new)["ledger"]
    assert (list(removed), list(added)) == (["1 user: to Bern"], ["1 user: until May"])


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("receipts", RECEIPT, "window: left out 7 turns of 1-9, 1,200 tokens"),
        ("events", EVENT, "iteration 2-4, turns 3-8: looked twice"),
        ("elisions", ELISION, "turn 5, message 1: 900 → 40 tokens"),
        ("pins", PIN, "turn 2: user"),
        ("rules", RULE, "12: never by plane (changed in turn 20)"),
        ("requests", REQUEST, "turn 3: book a table"),
    ],
)
def test_each_part_says_what_came_and_what_went(name: str, value: object, line: str) -> None:
    with_it = StoredContext.model_validate({"version": 1, name: (value,)})

    came, went = changes(EMPTY, with_it)[name], changes(with_it, EMPTY)[name]

    assert [list(each) for each in came] == [[], [line]]
    assert [list(each) for each in went] == [[line], []]


# --- history costs --------------------------------------------------------------------------------


def _step(strategy: str = "rolling", **fields: object) -> CommittedContext:
    record = {
        "session": "s",
        "version": 1,
        "strategy": strategy,
        "from_watermark": 0,
        "watermark": 9,
        "turns": 9,
        "elided": 0,
        "tokens_before": 4_000,
        "tokens_after": 2_000,
        "last_seq": 12,
        "model": "a-provider/its-large-model",
        **fields,
    }
    return CommittedContext(
        at_ms=1_700_000_000_000,
        record=Compaction.model_validate(record),
        context=StoredContext(version=1),
    )


def _shown(capsys: pytest.CaptureFixture[str], *steps: CommittedContext) -> str:
    _print_steps([(step, ()) for step in steps])
    return capsys.readouterr().out


def test_what_became_of_a_models_items_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    refused = _step(failed=("UnusableSummary: no-items",))

    items = {"kept": 2, "unsupported": 3, "loop": 1, "asked again: refused": 1}
    template = _step(items={"kept": 0, "asked again: over-budget": 1})

    shown = _shown(capsys, _step(items=items), template, refused)

    assert "2 items kept, 4 not: 3 unsupported, 1 loop; asked again: 1 refused\n" in shown
    assert "    asked again: 1 over-budget\n" in shown
    assert "failed before: UnusableSummary: no-items\n" in shown
    assert shown.count("kept") == 1


def test_a_price_is_told_and_summed(capsys: pytest.CaptureFixture[str]) -> None:
    told = _step(prompt_tokens=123_456, completion_tokens=1_234, cost_usd=0.01)

    shown = _shown(capsys, told, told)

    assert "123,456 + 1,234 tokens billed, $0.0100\n" in shown
    assert "$0.0200" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_price_that_is_not_known_is_not_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    known = _step(prompt_tokens=10, completion_tokens=1, cost_usd=0.01)
    unknown = _step(prompt_tokens=10, completion_tokens=1, cost_usd=None)

    shown = _shown(capsys, known, unknown)

    assert "10 + 1 tokens billed, price not known\n" in shown
    assert "$0.0100, 1 compaction of unknown price" in shown
