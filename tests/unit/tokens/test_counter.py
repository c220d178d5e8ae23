"""Counters: exact where a vocabulary is at hand, named as an estimate where none is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from turnmill.contract.errors import InvalidInput, UnknownEncoding
from turnmill_worker.tokens import TokenCounter, counter_for
from turnmill_worker.tokens import counters as counter_module
from turnmill_worker.tokens.bpe_openai import BpeCounter
from turnmill_worker.tokens.counters import HeuristicCounter, ImagePricing
from turnmill_worker.tokens.tiktoken import TiktokenCounter


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    """Choose the counter anew, also for the tests after these: one of these finds no library."""
    choose_anew()
    yield
    choose_anew()


def choose_anew() -> None:
    counter_for.cache_clear()
    counter_module._text_counter.cache_clear()


def test_the_default_counter_is_exact_and_says_so() -> None:
    assert counter_for().basis == "o200k_base/2/gpt-4o"
    assert counter_for().count("hello world") == 2


def test_a_process_loads_a_vocabulary_once() -> None:
    assert counter_for("cl100k_base") is counter_for("cl100k_base")


def test_the_basis_does_not_say_which_exact_library_counted() -> None:
    assert BpeCounter("o200k_base").basis == TiktokenCounter("o200k_base").basis


def test_an_unknown_encoding_is_refused_with_the_names_that_are_allowed() -> None:
    with pytest.raises(UnknownEncoding, match=r"p51k.*o200k_base"):
        counter_for("p51k")


def test_a_basis_names_the_formula_images_are_priced_by() -> None:
    counter = counter_for("o200k_base", "gpt-4.1-mini")

    assert counter.basis == "o200k_base/2/gpt-4.1-mini"
    assert counter.count("hello world") == 2


def test_a_vocabulary_is_loaded_once_whatever_the_images_cost() -> None:
    counter = counter_for("o200k_base", "o3")

    assert isinstance(counter, ImagePricing)
    assert counter._text is counter_for("o200k_base")


def test_an_unknown_formula_is_refused_with_the_names_that_are_allowed() -> None:
    with pytest.raises(InvalidInput, match=r"dall-e.*gpt-4o"):
        counter_for("o200k_base", "dall-e")


@pytest.mark.parametrize("encoding", ["o200k_base", "o200k_harmony", "cl100k_base"])
def test_the_bundled_encodings_are_exact(encoding: str) -> None:
    assert counter_for(encoding).basis == f"{encoding}/2/gpt-4o"


def test_the_estimate_can_be_asked_for() -> None:
    assert counter_for("heuristic").basis == "heuristic/2/gpt-4o"


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


def test_a_special_token_in_a_text_is_counted_as_text() -> None:
    assert counter_for().count("<|endoftext|>") > 1


def test_a_surrogate_pair_counts_like_the_character_it_spells() -> None:
    assert counter_for().count("\ud83d\ude00") == counter_for().count("\U0001f600")


def test_harmony_counts_text_like_its_base() -> None:
    text = "<|start|>assistant<|message|>Hello, wörld"

    assert counter_for("o200k_harmony").count(text) == counter_for("o200k_base").count(text)


@pytest.mark.parametrize(
    ("text", "at_least"),
    [("plain english words", 5), ('{"a":[1,2,3],"b":{"c":null}}', 14), ("日本語の文章です", 5)],
)
def test_the_heuristic_allows_for_json_and_cjk(text: str, at_least: int) -> None:
    exact = counter_for().count(text)

    assert at_least <= HeuristicCounter().count(text) <= 2.5 * exact


def _missing(encoding: str) -> TokenCounter:
    raise ImportError(encoding)
