"""What tokens cost: the table, the user's file over it, and no guess where neither knows."""

from __future__ import annotations

import json
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from turnmill_worker.errors import SummarizerMisconfigured
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.endpoint import Answer
from turnmill_worker.summarizers.openai.prices import load_prices


def answer(model: str = "gpt-4o", **fields: Any) -> Answer:
    values: dict[str, Any] = {
        "prompt_tokens": 1_000_000,
        "cached_tokens": 400_000,
        "completion_tokens": 100_000,
        "has_usage": True,
        **fields,
    }
    return Answer(text="", finish="stop", refused=False, model=model, **values)


def test_the_table_says_when_and_whence() -> None:
    prices = load_prices()

    assert prices.version == f"genai-prices {version('genai-prices')}"
    assert prices.of("gpt-4o-mini") is not None


def test_cached_input_is_cheaper() -> None:
    spent = load_prices().spent(answer(), "gpt-4o")

    assert spent.cost_usd == pytest.approx(0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10.0)


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06", "gpt-4o"])
def test_a_dated_name_costs_the_same(name: str) -> None:
    assert load_prices().of(name) == load_prices().of("gpt-4o")


def test_an_answer_from_a_batch_costs_half() -> None:
    live, batched = answer(cached_tokens=0), answer(cached_tokens=0, batched=True)

    assert load_prices().spent(batched, "gpt-4o").cost_usd == pytest.approx(
        (load_prices().spent(live, "gpt-4o").cost_usd or 0) / 2
    )


def test_a_long_prompt_costs_what_the_list_says_of_long_ones() -> None:
    long, short = answer("gpt-5.4", cached_tokens=0), answer("gpt-5.4", prompt_tokens=1_000)
    price = load_prices().of("gpt-5.4")
    assert price is not None

    assert load_prices().spent(short, "").cost_usd == pytest.approx(
        price.cost(1_000, cached=1_000, written=100_000)
    )
    assert (load_prices().spent(long, "").cost_usd or 0) > price.cost(1_000_000, written=100_000)


def test_the_endpoint_s_own_list_is_taken_where_there_is_one() -> None:
    known = load_prices(url="https://openrouter.ai/api/v1")

    assert known.of("openai/gpt-4o-mini") is not None
    assert load_prices().of("openai/gpt-4o-mini") is None
    assert load_prices(url="http://127.0.0.1:8000/v1") == load_prices()


def test_prices_are_found_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("a price was asked for")

    monkeypatch.setattr(socket.socket, "connect", refused)

    assert load_prices().spent(answer(), "gpt-4o").cost_usd


def test_the_name_that_was_asked_for_serves_where_the_answers_is_unknown() -> None:
    assert load_prices().spent(answer("deployment-7"), "gpt-4o").cost_usd is not None


def test_an_unknown_model_and_an_answer_without_usage_have_no_cost() -> None:
    assert load_prices().spent(answer("llama"), "llama").cost_usd is None
    assert load_prices().spent(answer(has_usage=False), "gpt-4o").cost_usd is None


def test_a_file_overrides_and_adds(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    own = {"gpt-4o": {"input": 1, "output": 2}, "llama": {"input": 0, "output": 0}}
    file.write_text(json.dumps({"version": "mine", "usd_per_million_tokens": own}))

    prices = load_prices(file)

    assert prices.version.endswith("+mine")
    assert prices.spent(answer(), "gpt-4o").cost_usd == pytest.approx(1.2)
    assert prices.spent(answer("llama"), "llama").cost_usd == 0
    assert prices.of("gpt-4o-mini") is not None


def test_a_price_of_one_s_own_holds_whatever_name_the_endpoint_answers_with(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"usd_per_million_tokens": {"fast": {"input": 1, "output": 2}}}')

    prices = load_prices(file)

    assert prices.spent(answer("gpt-4o-2024-08-06"), "fast").cost_usd == pytest.approx(1.2)
    assert prices.spent(answer("fast"), "gpt-4o").cost_usd == pytest.approx(1.2)
    assert (
        prices.spent(answer("gpt-4o"), "gpt-4o").cost_usd
        == load_prices().spent(answer("gpt-4o"), "gpt-4o").cost_usd
    )


@pytest.mark.parametrize(
    "text", ["", "[]", '{"usd_per_million_tokens": {"a": {"input": -1, "output": 1}}}', "{}"]
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)

    with pytest.raises(SummarizerMisconfigured, match="usd_per_million_tokens"):
        load_prices(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SummarizerMisconfigured, match=r"none\.json: FileNotFoundError"):
        load_prices(tmp_path / "none.json")


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    total = Spent(calls=1, cost_usd=0.5) + Spent(calls=1, cost_usd=None)

    assert total == Spent(calls=2, cost_usd=None)
