"""Policies are valid at birth, for a model by its name too; a refusal names what disagrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.entry_points import install
from turnmill import InvalidPolicy, Policy
from turnmill.contract.models import known_models
from turnmill.contract.policy import OWN_NAMES, refuse_slips
from turnmill_worker.compaction.strategies.registry import registered
from turnmill_worker.settings import Settings
from turnmill_worker.summarizers.registry import GROUP, Registry
from turnmill_worker.wiring import load_strategies

# Policies are valid at birth; a refusal names the field, or both that disagree.


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"target_ratio": 0.9}, r"target_ratio 0.9 .*soft_ratio=0.8"),
        ({"summary_ratio": 0.6}, r"summary_ratio 0.6 .*target_ratio=0.5"),
        ({"reserved_tokens": 8000}, r"reserved_tokens 8000 .*max_tokens=8192"),
        ({"max_tokens": 100}, "max_tokens: .*512"),
        ({"soft_ratio": 1.5}, "soft_ratio: .*1"),
        ({"strategies": ()}, "strategies: .*at least 1"),
        ({"strategies": ("black magic",)}, r"strategies.*should match pattern"),
        ({"strategies": "window"}, "strategies: must be a list"),
        ({"max_tokenz": 9000}, "no field 'max_tokenz'; did you mean max_tokens"),
        ({"model": "gpt-4o"}, "model='gpt-4o' needs summarizer='openai', not 'extractive'"),
        ({"template": "coding"}, "template=coding needs 'managed' in strategies, which are images"),
        ({"max_interactions": 3, "strategies": ("rolling",)}, "max_interactions=3 needs 'window'"),
    ],
)
def test_a_refusal_names_what_disagrees(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPolicy, match=says):
        Policy(**fields)


@given(st.integers(512, 100_000), st.integers(0, 100_000))
def test_target_soft_and_hard_never_cross(max_tokens: int, system_tokens: int) -> None:
    limits = Policy(max_tokens=max_tokens).limits(min(system_tokens, max_tokens - 256))

    assert limits.target < limits.soft < limits.hard
    assert limits.room >= 256


# Policies for models by name: their windows, from the package's table or one's own.


def test_a_model_has_its_window_less_room_for_its_reply() -> None:
    policy = Policy.for_model("claude-sonnet-4-5")

    assert (policy.max_tokens, policy.hard_limit) == (200_000, 168_000)
    assert policy.token_ratio > 1


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "Claude-Sonnet-4-5-latest",
    ],
)
def test_a_provider_and_a_date_make_no_difference(name: str) -> None:
    assert Policy.for_model(name) == Policy.for_model("claude-sonnet-4-5")


def test_more_than_the_window_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidPolicy, match="300000 exceeds the 200000"):
        Policy.for_model("claude-sonnet-4-5", max_tokens=300_000)


def test_a_table_of_ones_own_comes_first(tmp_path: Path) -> None:
    own = {"mine": {"window": 32_768, "reply": 4096}, "gpt-4o": {"window": 64_000}}
    file = tmp_path / "models.json"
    file.write_text(json.dumps(own))

    for models in (own, str(file)):
        assert Policy.for_model("mine", models=models).hard_limit == 28_672
        assert Policy.for_model("gpt-4o", models=models).max_tokens == 64_000
        assert Policy.for_model("gpt-4", models=models).max_tokens == 8192


def test_every_model_of_the_table_makes_a_policy() -> None:
    for name in known_models():
        assert Policy.for_model(name).hard_limit >= known_models()[name].window // 2


# A name that is a slip for one of ours is refused where a session is opened.


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"strategies": ("elide", "widnow")}, "'window'"),
        ({"strategies": ("roling", "window")}, "'rolling'"),
        ({"summarizer": "opnai"}, "'openai'"),
    ],
)
def test_a_slip_is_refused_and_what_was_meant_is_said(fields: dict[str, Any], meant: str) -> None:
    with pytest.raises(InvalidPolicy, match=f"nobody offers .* mean {meant}. There are .*turnmill"):
        refuse_slips(Policy(**fields))


@pytest.mark.parametrize("name", ["dream", "slide", "rolling2", "window-eu"])
def test_a_name_that_only_workers_may_know_passes(name: str) -> None:
    refuse_slips(Policy(strategies=(name, "window")))


def test_what_a_package_offers_here_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(tmp_path, GROUP, "opnai", "own_opnai:Made", source="")
    monkeypatch.syspath_prepend(str(folder))

    refuse_slips(Policy(summarizer="opnai"))


def test_workers_have_those_names_of_ours() -> None:
    load_strategies()
    assert set(OWN_NAMES["strategies"]) == set(registered())
    assert set(OWN_NAMES["summarizer"]) == set(Registry(Settings()).names)
