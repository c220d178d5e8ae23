"""Every turn that may be pushed is read in a time that grows with its size, whatever it holds."""

from __future__ import annotations

import itertools
import json
import string
from collections.abc import Callable

import pytest

from tests.effort import assert_linear
from turnmill.contract.context import EMPTY
from turnmill.contract.names import Seq
from turnmill.open_requests.find import open_requests
from turnmill.rules.standing import Said, in_force
from turnmill_worker.compaction.ledger.fact_merging import merged
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.sentences import MOST_UNITS, sentences
from turnmill_worker.old_reading.updates import Told
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.tokens import counter_for

SIZE = 128_000
"""Twice as much is more than the default limit of a turn lets most of these shapes have units."""


def short_words(size: int, between: str) -> str:
    letters = string.ascii_lowercase + string.digits
    words = map("".join, itertools.product(letters, repeat=4))
    return between.join(itertools.islice(words, size // (4 + len(between))))


SHAPES: dict[str, Callable[[int], str]] = {
    "unique short words": lambda size: short_words(size, " "),
    "a word a line": lambda size: short_words(size, "\n"),
    "a word a sentence": lambda size: short_words(size, ". "),
    "keys of one object": lambda size: json.dumps({f"k{i}": i * 3 for i in range(size // 16)}),
    "deep nesting": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "one line": lambda size: "x" * size,
    "digits": lambda size: "7" * size,
    "numbers": lambda size: " ".join(str(i * 7919) for i in range(size // 8)),
    "code fences": lambda size: "```\ncode\n```\n" * (size // 13),
    "open fences": lambda size: "```\n" * (size // 4),
    "fields": lambda size: "\n".join(f"key{i}: value{i}" for i in range(size // 18)),
    "updates": lambda size: " ".join(f"The budget is now ${i}." for i in range(size // 24)),
    "rules": lambda size: "Always answer. Never must you. " * (size // 31),
}


def said(text: str) -> list[Said]:
    return [Said(Seq(1), [{"role": "user", "content": text}])]


COUNT = counter_for("o200k_base").count
WORKS: dict[str, Callable[[str], object]] = {
    "summary": lambda text: extract(
        [(1, {"role": "user", "content": text})], budget_tokens=800, count=COUNT
    ),
    "summary of a result": lambda text: extract(
        [(1, {"role": "tool", "tool_call_id": "c", "content": text})],
        budget_tokens=800,
        count=COUNT,
    ),
    "ledger": lambda text: merged((), Told(read_units([(1, {"role": "user", "content": text})]))),
    "rules": lambda text: in_force((), said(text)),
    "requests": lambda text: open_requests(EMPTY, said(text)),
}


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reading_takes_time_in_the_size_of_the_text(shape: str, work: str) -> None:
    made = {size: SHAPES[shape](size) for size in (SIZE // 4, SIZE // 2, SIZE * 2)}

    assert_linear(lambda size: WORKS[work](made[size]), size=SIZE // 2)


@pytest.mark.parametrize("shape", ["a word a line", "a word a sentence", "open fences"])
def test_a_long_text_is_read_whole_in_a_bounded_number_of_units(shape: str) -> None:
    text = SHAPES[shape](1_000_000)

    units = sentences(text)

    assert len(units) <= 1.5 * MOST_UNITS
    assert " ".join(units).split() == text.split()
