"""Policies are valid at birth; a refusal names the field, or both that disagree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import InvalidPolicy, Policy


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"target_ratio": 0.9}, r"target_ratio 0.9 .*soft_ratio=0.8"),
        ({"summary_ratio": 0.6}, r"summary_ratio 0.6 .*target_ratio=0.5"),
        ({"reserved_tokens": 8000}, r"reserved_tokens 8000 .*max_tokens=8192"),
        ({"max_tokens": 100}, "max_tokens: .*512"),
        ({"soft_ratio": 1.5}, "soft_ratio: .*1"),
        ({"soft_ratio": float("nan")}, "soft_ratio"),
        ({"ttl_s": 5}, "ttl_s: .*60"),
        ({"elide_over_tokens": 1}, "elide_over_tokens: .*64"),
        ({"strategies": ()}, "strategies: .*at least 1"),
        ({"strategies": ("window", "window")}, "strategies must not name one twice"),
        ({"strategies": ("black magic",)}, r"strategies.*should match pattern"),
        ({"encoding": "nobody_base"}, "encoding"),
        ({"strategies": "window"}, "strategies: must be a list"),
        ({"max_tokenz": 9000}, "no field 'max_tokenz'; did you mean max_tokens"),
        ({"xyz": 1}, "no field 'xyz'; fields are max_tokens, .*ttl_s"),
        ({"model": "gpt-4o"}, "model='gpt-4o' needs summarizer='openai', not 'extractive'"),
        ({"fallback_model": "small"}, "fallback_model='small' needs summarizer='openai'"),
        ({"batch": True}, "batch=True needs summarizer='openai'"),
        ({"template": "coding"}, "template=coding needs 'managed' in strategies, which are images"),
        (
            {"keep_recent_iterations": 5},
            "keep_recent_iterations=5 needs 'iterations' in strategies",
        ),
        ({"max_interactions": 3, "strategies": ("rolling",)}, "max_interactions=3 needs 'window'"),
    ],
)
def test_a_refusal_names_what_disagrees(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPolicy, match=says):
        Policy(**fields)


def test_models_can_be_switched_off_where_they_are_named() -> None:
    asking = Policy(summarizer="openai", model="gpt-4o", fallback_model="small")

    off = asking.model_copy(update={"summarizer": "extractive"})

    assert Policy.from_json(off.model_dump_json()) == off
    assert Policy(summarizer="extractive", model="gpt-4o").model == "gpt-4o"


def test_a_policy_that_is_not_json_is_refused() -> None:
    with pytest.raises(InvalidPolicy):
        Policy.from_json(b"{")


def test_a_policy_comes_back_from_its_json() -> None:
    policy = Policy(max_tokens=4096, strategies=("window",))

    assert Policy.from_json(policy.model_dump_json()) == policy


@given(st.integers(512, 100_000), st.integers(0, 100_000))
def test_target_soft_and_hard_never_cross(max_tokens: int, system_tokens: int) -> None:
    limits = Policy(max_tokens=max_tokens).limits(min(system_tokens, max_tokens - 256))

    assert limits.target < limits.soft < limits.hard
    assert limits.room >= 256
