"""Whatever a text holds, it is read whole, as its author's, in time that grows with its length."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.effort import assert_linear
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.marks import is_memories
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.reading.passages import ASSISTANT, RESULT, USER, read, sentences
from turnmill_worker.reading.readings import Readings, of_older_pool, of_summary
from turnmill_worker.reading.said import Said
from turnmill_worker.reading.words import concepts
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

# Messages are read once; summaries and pools of older versions are read as what they tell.


def user(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def test_memories_are_nobody_s_words_and_a_context_pushed_again_is_no_user_s() -> None:
    memories = {"role": "user", "name": "memories", "content": "Ann likes tea."}
    again = render_head(StoredContext(summary="1 user: Pay it all."))
    assert is_memories(memories)

    read = Readings(len).of_turn(Seq(1), [memories, *again, user("Two teas.")])

    assert [(each.role, each.passages[-1].text) for each in read][-1] == (USER, "Two teas.")
    assert [each.role for each in read[:-1]] == [RESULT]


def test_a_summary_s_lines_say_who_spoke_when_and_others_are_the_assistant_s() -> None:
    found = of_summary("3 user: Pay INV-7.\n4 fetch: total=20\n\n## Goal\n12 Ann: Hello.", len)

    assert [(each.seq, each.who, each.role) for each in found] == [
        (3, "user", USER),
        (4, "fetch", RESULT),
        (0, "assistant", ASSISTANT),
        (12, "Ann", RESULT),
    ]


def test_a_pool_of_an_older_version_is_read_as_who_said_what() -> None:
    groups = [{"label": "invoice", "texts": ["total=20", "po=7"]}, {"texts": ["paid"]}]
    pool = [{"seq": 4, "source": "result", "name": "fetch", "groups": groups}]

    [found] = of_older_pool(pool, len)

    assert (found.seq, found.who, found.role) == (4, "fetch", RESULT)
    assert [each.text for each in found.passages] == ["invoice total=20 po=7", "paid"]


# A message is read once, whatever it is, in time that grows with its length and no faster.


def count(text: str) -> int:
    return len(text) // 4 + 1


def test_every_value_of_a_nested_record_stands_with_its_owner() -> None:
    content = json.dumps({"order_id": "W-88", "ship": {"to": {"city": "Ulm", "zip": "89073"}}})
    found = read(1, {"role": "tool", "content": content}, count)

    assert {label for label, _, _ in found.labels} == {"order_id=W-88"}


def test_unspaced_sentences_are_cut_and_their_values_found() -> None:
    text = "請求書INV-2010の合計は812.50円です。次は佐倉へ行きますか？はい！"

    first, *others = sentences(text)

    assert first == "請求書INV-2010の合計は812.50円です。"
    assert len(others) == 2
    assert {*concepts("INV-2010", prose=False)} <= {*concepts(text, prose=False)}
    assert {*concepts("812.50", prose=False)} <= {*concepts(text, prose=False)}
    assert {*concepts("佐倉", prose=False)} <= {*concepts(text, prose=False)}


# Whatever a text holds, reading it and choosing from it takes time in proportion to its length.

HOSTILE = {
    "one word": "x",
    "sentences": "No, that is 4 now. ",
    "rules": "Always use metres. ",
    "quotes": "> ",
    "fences": "```\n",
    "brackets": "[{",
    "Chinese": "我们明天去北京。",
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
