"""Counters: exact where a vocabulary is at hand, named as an estimate where none is."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.realdata import names, requires_data, sessions
from turnmill.contract.errors import UnknownEncoding
from turnmill_worker.tokens import (
    CountedOnce,
    TokenCounter,
    count_message,
    count_request,
    counter_for,
)
from turnmill_worker.tokens import counters as counter_module
from turnmill_worker.tokens.counters import HeuristicCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter

# Counters: exact where a vocabulary is at hand, named as an estimate where none is.


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    """Choose the counter anew, also for the tests after these: one of these finds no library."""
    choose_anew()
    yield
    choose_anew()


def choose_anew() -> None:
    counter_for.cache_clear()
    counter_module._text_counter.cache_clear()


def test_an_unknown_encoding_is_refused_with_the_names_that_are_allowed() -> None:
    with pytest.raises(UnknownEncoding, match=r"p51k.*o200k_base"):
        counter_for("p51k")


def test_tiktoken_counts_when_bpe_openai_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_module, "BpeCounter", _missing)

    counter = counter_for()

    assert isinstance(counter, TiktokenCounter)
    assert counter.basis == "o200k_base/2/gpt-4o"


def test_counting_does_not_import_what_costs_a_second() -> None:
    code = "import sys; from turnmill_worker.tokens import counter_for; counter_for().count('x')"
    check = f"{code}; sys.exit('bpe_openai' in sys.modules or 'tiktoken' in sys.modules)"

    assert subprocess.run([sys.executable, "-W", "error", "-c", check], check=False).returncode == 0


def test_the_heuristic_counts_when_no_library_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    counter = counter_for()

    assert isinstance(counter, HeuristicCounter)
    assert counter.basis == "heuristic/2/gpt-4o"


@pytest.mark.parametrize("encoding", ["o200k_base", "o200k_harmony", "cl100k_base"])
@pytest.mark.parametrize(
    "text", ["a<|endoftext|>b", "<|endofprompt|>", "\ud800", "a\udfff\ud83d\ude00b", "", "\0" * 9]
)
def test_no_text_makes_a_counter_raise(encoding: str, text: str) -> None:
    assert counter_for(encoding).count(text) >= (1 if text else 0)


def _missing(encoding: str) -> TokenCounter:
    raise ImportError(encoding)


# Texts that a job shows in several places are counted once.


class Words(TokenCounter):
    """Counts words, and notes what it was asked."""

    basis = "words/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text.split())


def test_a_text_is_counted_once_however_often_it_is_shown() -> None:
    words = Words()
    counter = CountedOnce(words)

    counts = [counter.count(text) for text in ("one two", "", "one two", "")]

    assert counts == [2, 0, 2, 0]
    assert words.asked == ["one two", ""]
    assert counter.basis == "words/1"


def test_a_line_is_counted_once_where_no_token_reaches_over_its_end() -> None:
    class ByLines(Words):
        splits_lines = True

    words = ByLines()
    first, second, third = ("one " * 70 + "\n", "/two " * 70 + "\n", "three " * 70)

    counts = [CountedOnce(words).count(text) for text in (first + third, first + second + third)]

    assert counts == [140, 210]
    assert words.asked == [first, third, first + second]


# What a message costs: never less than the cookbook says, images flat, nothing forgotten.

COUNTER = counter_for()
count = COUNTER.count
IMAGE = "data:image/png;base64," + base64.b64encode(bytes(90_000)).decode()
MOST = 1445  # four by two tiles, for an image of unknown size
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}


def test_a_plain_message_costs_what_the_cookbook_says() -> None:
    message = {"role": "user", "content": "Hello there"}

    assert count_message(COUNTER, message) == 3 + count("user") + count("Hello there")


def test_a_tool_call_costs_its_name_arguments_id_and_framing() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}

    expected = 4 + 8 + count("call_1") + count("look") + count('{"a":1}')
    assert count_message(COUNTER, message) == expected


def test_an_image_costs_its_price_and_never_its_base64() -> None:
    part = {"type": "image_url", "image_url": {"url": IMAGE}}

    assert count_message(COUNTER, {"role": "user", "content": [part]}) == 4 + 1 + MOST


def test_an_image_is_priced_by_the_formula_the_counter_s_basis_names() -> None:
    part = {"type": "image_url", "image_url": {"url": "blob:" + "0" * 64 + ";image/png;64x64"}}
    message = {"role": "user", "content": [part]}

    assert count_message(counter_for("o200k_base", "gpt-4o-mini"), message) == 4 + 1 + 8500
    assert count_message(counter_for("o200k_base", "gpt-4.1-nano"), message) == 4 + 1 + 10


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": None, "content": 7},
        {"role": "assistant", "tool_calls": ["odd", None, {}]},
        {"role": "user", "content": [None, 1, {"type": "file"}, {"type": "image_url"}, {}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": 5}}], "\ud800": "x"},
    ],
)
def test_an_odd_message_is_counted_not_refused(message: dict[str, Any]) -> None:
    assert count_message(COUNTER, message) >= 3


@requires_data
@pytest.mark.parametrize("name", names())
def test_real_sessions_never_cost_less_than_their_own_count(name: str) -> None:
    for session in sessions(name):
        assert count_request(COUNTER, session["messages"]) >= session["tokens_o200k"]
