"""Runs of data in texts give way to a note where room is short; what stands around them stays."""

from __future__ import annotations

import base64
import json
import random
import string
import time
from typing import Any

import pytest

from tests.image_parts import data_url, png
from turnmill.contract.base64_text import without_base64
from turnmill.contract.estimate import bound_tokens
from turnmill.contract.shorten import shorten
from turnmill_worker.reading.passages import read
from turnmill_worker.tokens import counter_for

MEGABYTE = data_url(png(size=734_000))
DATA = base64.b64encode(random.Random(1).randbytes(3_000)).decode()
RANDOM = random.Random(2)
HASHES = [RANDOM.randbytes(32).hex() for _ in range(50)]
ONE_IN_EACH_LINE = [
    *("\n".join(HASHES), "\r\n ".join(HASHES), json.dumps("\r\n \t".join(HASHES))),
    "\n".join(f"/var/lib/docker/overlay2/{name}" for name in HASHES),
    "\n".join(f"objects/{name[:2]}/{name[2:]}" for name in HASHES),
    "\n".join("".join(RANDOM.choices("ACDEFGHIKLMNPQRSTVWY", k=60)) for _ in range(9)),
    "\n".join("".join(RANDOM.choices(string.ascii_letters, k=88)) for _ in range(9)),
]
"""Hashes, paths, a protein, signatures: somebody may have to read one again."""

NAMES = "\n".join(
    "AnExceptionThatSomebodyGaveAVeryLongNameThatIsNoData" + "s" * at for at in range(50)
)


def in_lines(width: int, indent: int = 0) -> str:
    """Data as programs write them into a text."""
    between = "\n" + " " * indent
    return between.join(DATA[at : at + width] for at in range(0, len(DATA), width))


SHOWN = {
    f"Saved: {MEGABYTE} (page 1)": "Saved: [image/png, 734 kB of base64 removed] (page 1)",
    f'{{"png": "{DATA}"}}': '{"png": "[3 kB of base64 removed]"}',
    random.Random(1).randbytes(1000).hex(): "[1 kB of base64 removed]",
    f"{DATA}\n{DATA}": "[3 kB of base64 removed]\n[3 kB of base64 removed]",
    f"$ base64 a.png\n{in_lines(76)}\nDone.": "$ base64 a.png\n[3 kB of base64 removed]\nDone.",
    f"cert: |\n  {in_lines(64, 2)}\nnext: 1": "cert: |\n  [3 kB of base64 removed]\nnext: 1",
    json.dumps({"pem": f"-\n{in_lines(64)}\n"}): (
        rf'{{"pem": "-\n{DATA[:4]}[3 kB of base64 removed]\n"}}'
    ),
    json.dumps(json.dumps(f"-\n{in_lines(64)}")): json.dumps(
        json.dumps(f"-\n{DATA[:4]}[3 kB of base64 removed]")
    ),
    DATA.replace("/", r"\/"): "[3 kB of base64 removed]",
    base64.encodebytes(random.Random(1).randbytes(57 * 20 - 1)).decode() + "Done": (
        "[1 kB of base64 removed]\nDone"
    ),
    **{text: text for text in ONE_IN_EACH_LINE},
    NAMES: NAMES,
    "x" * 5000: "x" * 5000,
    "two words " * 500: "two words " * 500,
    DATA[:500]: DATA[:500],
    "": "",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items(), ids=map(str, range(len(SHOWN))))
def test_a_run_of_data_is_told_by_its_type_and_size(text: str, shown: str) -> None:
    assert without_base64(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *(MEGABYTE, ("A" * 99 + "\n") * 9_000, (DATA[:511] + " ") * 2000, "data:" * 200_000),
        *((r"\/" * 500 + " ") * 1000, (r"\\\\/" * 500 + " ") * 400),
    ],
)
def test_looking_for_data_is_linear(text: str) -> None:
    began = time.process_time()
    without_base64(text)

    assert time.process_time() - began < 1


def test_data_is_counted_as_what_it_costs_in_linear_time() -> None:
    began = time.process_time()
    tokens = counter_for().count(MEGABYTE)

    assert len(MEGABYTE) // 2 < tokens <= bound_tokens(MEGABYTE.encode())
    assert time.process_time() - began < 3


def test_a_shortened_result_keeps_what_stands_around_its_data() -> None:
    count = counter_for().count_messages
    message: dict[str, Any] = {
        "role": "tool",
        "tool_call_id": "c",
        "content": f"The page has 3 errors.\n{MEGABYTE}\nDone in 4711 ms.",
    }
    note = "[image/png, 734 kB of base64 removed]"

    [shown] = shorten([message], 60, count) or [{}]

    assert shown["content"] == f"The page has 3 errors.\n{note}\nDone in 4711 ms."


def test_arguments_with_data_stay_json() -> None:
    arguments = json.dumps({"a": f"first\n{DATA}", "b": 1})
    call = {"id": "c", "type": "function", "function": {"name": "put", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}

    [shown] = shorten([message], 80, counter_for().count_messages) or [{}]

    kept = json.loads(shown["tool_calls"][0]["function"]["arguments"])
    assert kept["b"] == 1
    assert "of base64 removed]" in kept["a"]


def test_data_is_no_words() -> None:
    text = f"Order 4711 is shipped.\n{MEGABYTE}\nIt weighs 3 kg."
    message = {"role": "tool", "tool_call_id": "c", "content": text}

    said = [each.text for each in read(1, message, len).passages]

    assert max(map(len, said)) < 60
    assert any("4711" in each for each in said)
    assert any("3 kg" in each for each in said)
