"""A message is read once, whatever it is, in time that grows with its length and no faster."""

from __future__ import annotations

import json
import time

import pytest

from turnmill_worker.reading.passages import Reading, read, sentences
from turnmill_worker.reading.words import Packed, Packing, concepts


def count(text: str) -> int:
    return len(text) // 4 + 1


LONG = 300_000
HOSTILE = {
    "letters": "x" * LONG,
    "open lists": "[" * LONG,
    "open objects": "{" * LONG,
    "newlines": "\n" * LONG,
    "spaces": " " * LONG + "x",
    "commas": "," * LONG,
    "bars": "|" * LONG,
    "digits": "7" * LONG,
    "ideographs": "漢" * LONG,
    "quoted keys": '"a":' * (LONG // 4),
    "named lines": "a: b\n" * (LONG // 5),
    "rows": "| a | b |\n" * (LONG // 10),
    "rules": "-" * LONG + "x",
    "boxes": "- [ ] x\n" * (LONG // 8),
    "fields": json.dumps({f"k{n}": n for n in range(LONG // 10)}),
    "records": json.dumps([{"id": n} for n in range(LONG // 10)]),
    "deep": '{"a":' * 900 + "1" + "}" * 900,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("role", ["tool", "user"])
def test_hostile_text_is_read_in_linear_time(kind: str, role: str) -> None:
    started = time.process_time()
    found = read(1, {"role": role, "content": HOSTILE[kind], "tool_call_id": "c"}, count)

    assert time.process_time() - started < 3
    assert len(found.passages) <= 8_100


def test_arguments_that_are_no_json_are_read() -> None:
    call = {"id": "c", "function": {"name": "run", "arguments": "[" * 100_000}}

    assert read(1, {"role": "assistant", "content": None, "tool_calls": [call]}, count).passages


def test_a_reading_is_the_same_once_stored_and_restored() -> None:
    content = json.dumps({"id": "A-17", "items": [{"id": "B-1", "n": 2}, {"id": "B-2", "n": 3}]})
    found = read(3, {"role": "tool", "content": content}, count)._replace(cells=())

    ids = Packing()
    stored = json.loads(json.dumps(found.stored(ids)))

    assert Reading.restored(stored, Packed(ids.text())) == found


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
