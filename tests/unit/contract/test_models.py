"""Policies for models by name: their windows, from the package's table or one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turnmill import InvalidPolicy, Policy
from turnmill.contract.models import known_models

ROOT = Path(__file__).parents[3]


def test_a_model_has_its_window_less_room_for_its_reply() -> None:
    policy = Policy.for_model("claude-sonnet-4-5")

    assert (policy.max_tokens, policy.hard_limit) == (200_000, 168_000)
    assert policy.token_ratio > 1


def test_an_openai_model_counts_with_its_own_encoding() -> None:
    assert Policy.for_model("gpt-4o").encoding == "o200k_base"
    assert Policy.for_model("gpt-4").encoding == "cl100k_base"
    assert Policy.for_model("gpt-4o").token_ratio == 1.0
    assert Policy.for_model("gpt-4o-mini").image_formula == "gpt-4o-mini"


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-sonnet-4-5",
        "anthropic:claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5@20250929",
        "Claude-Sonnet-4-5-latest",
    ],
)
def test_a_provider_and_a_date_make_no_difference(name: str) -> None:
    assert Policy.for_model(name) == Policy.for_model("claude-sonnet-4-5")


def test_changes_come_before_what_the_table_says() -> None:
    policy = Policy.for_model("claude-sonnet-4-5", token_ratio=1.2, soft_ratio=0.9)

    assert (policy.token_ratio, policy.soft_ratio) == (1.2, 0.9)


def test_a_smaller_limit_leaves_the_rest_of_the_window_for_the_reply() -> None:
    assert Policy.for_model("claude-sonnet-4-5", max_tokens=32_768).hard_limit == 32_768
    assert Policy.for_model("claude-sonnet-4-5", max_tokens=190_000).hard_limit == 168_000


def test_more_than_the_window_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidPolicy, match="300000 exceeds the 200000"):
        Policy.for_model("claude-sonnet-4-5", max_tokens=300_000)


def test_an_unknown_model_is_refused_with_those_that_are_near() -> None:
    with pytest.raises(InvalidPolicy, match=r"'claude-sonet-4-5'.* claude-sonnet-4-5,"):
        Policy.for_model("claude-sonet-4-5")


def test_a_field_that_does_not_exist_is_refused_as_ever() -> None:
    with pytest.raises(InvalidPolicy, match="did you mean soft_ratio"):
        Policy.for_model("gpt-4o", soft_ration=0.9)


def test_a_table_of_ones_own_comes_first(tmp_path: Path) -> None:
    own = {"mine": {"window": 32_768, "reply": 4096}, "gpt-4o": {"window": 64_000}}
    file = tmp_path / "models.json"
    file.write_text(json.dumps(own))

    for models in (own, str(file)):
        assert Policy.for_model("mine", models=models).hard_limit == 28_672
        assert Policy.for_model("gpt-4o", models=models).max_tokens == 64_000
        assert Policy.for_model("gpt-4", models=models).max_tokens == 8192


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("no JSON", "models: Invalid JSON"),
        ('{"mine": {"window": 8}}', "models: mine.window: .* 1024"),
        ('{"mine": {"windows": 8192}}', "mine.windows: Extra"),
        ('{"mine": {"window": 8192, "ratio": 9}}', "models: mine.ratio: .* 4"),
    ],
)
def test_a_table_that_is_none_is_refused_and_told_what_it_may_have(
    tmp_path: Path, body: str, said: str
) -> None:
    file = tmp_path / "models.json"
    file.write_text(body)

    with pytest.raises(InvalidPolicy, match=f"{said}.*image_formula, and nothing else"):
        Policy.for_model("mine", models=str(file))


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="cannot be read"):
        Policy.for_model("mine", models=str(tmp_path / "none.json"))


def test_every_model_of_the_table_makes_a_policy() -> None:
    for name in known_models():
        assert Policy.for_model(name).hard_limit >= known_models()[name].window // 2


def test_the_table_is_what_genai_prices_says() -> None:
    tool = [sys.executable, "tools/models_table.py", "--check"]
    subprocess.run(tool, cwd=ROOT, check=True)


def test_limits_are_in_tokens_of_the_encoding() -> None:
    policy = Policy(max_tokens=8192, token_ratio=1.25)

    assert policy.limits(0).hard == int(8192 / 1.25)
    assert policy.limits(0, 2.0).hard == 4096
