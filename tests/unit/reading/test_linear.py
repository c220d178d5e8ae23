"""Whatever a text holds, reading it and choosing from it takes time in proportion to its length."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.effort import assert_linear
from turnmill.contract.names import Seq
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.said import Said
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

HOSTILE = {
    "one word": "x",
    "digits": "7",
    "blanks": " ",
    "lines": "\n",
    "sentences": "No, that is 4 now. ",
    "rules": "Always use metres. ",
    "one sentence": "and so on, ",
    "labels": "7 user: ",
    "quotes": "> ",
    "fences": "```\n",
    "brackets": "[{",
    "dots": "a.b/c@",
    "Chinese": "我们明天去北京。",
    "marks": "e\u0301\u200b",
    "table": "| a | 1 |\n",
}


def told(role: str, text: str) -> dict[str, Any]:
    call = {"tool_call_id": "c"} if role == "tool" else {}
    return {"role": role, "content": text, **call}


def work(*messages: dict[str, Any]) -> None:
    """Read it, listen to it, and summarize it."""
    said = Said()
    said.hear(1, Readings(len).of_turn(Seq(1), messages))
    said.standing((), 1)
    records = tuple((Seq(1), message) for message in messages)
    request = SummaryRequest(previous="", records=records, budget_tokens=1_000)
    ExtractiveSummarizer().summarize(request, CountedOnce(counter_for()))


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_message_of_anything_takes_time_in_proportion_to_its_length(role: str, kind: str) -> None:
    text = HOSTILE[kind]

    assert_linear(lambda size: work(told(role, text * (size // len(text)))), size=10_000)


def test_many_records_and_many_turns_take_time_in_proportion() -> None:
    def records(size: int) -> None:
        rows = [{"id": f"INV-{n}", "total": n * 31, "po": f"PO-{n * 7}"} for n in range(size)]
        work(told("tool", json.dumps(rows)))

    def turns(size: int) -> None:
        work(*(told("user", f"Crate C-{n * 7} weighs {n * 13} kilos.") for n in range(size)))

    assert_linear(records, size=150)
    assert_linear(turns, size=150)
