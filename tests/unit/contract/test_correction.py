"""What is learned from usage: never below what a remembered call would have made of a count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import InvalidInput, Usage
from turnmill.contract.correction import Correction, Told, input_tokens

CALLS = st.lists(st.tuples(st.integers(500, 10**6), st.floats(0.5, 4.0)), min_size=1, max_size=40)


@given(CALLS, st.floats(0.5, 4.0))
def test_a_corrected_count_is_never_below_what_any_of_the_last_calls_was_reported_as(
    calls: list[tuple[int, float]], start: float
) -> None:
    known = Correction(start)
    for counted, ratio in calls:
        known = known.after(int(counted * ratio), counted)

    again = Correction.stored(known.encode(), start)

    assert again == known
    for counted, ratio in calls[-16:]:
        assert known.corrected(counted) >= int(counted * ratio)
    assert known.error is not None
    assert 0 <= known.error < 1


def test_one_large_ratio_leaves_after_sixteen_calls() -> None:
    known = Correction().after(3000, 1000)
    for _ in range(15):
        known = known.after(1100, 1000)

    before, after = known.ratio, known.after(1100, 1000).ratio

    assert (before, after) == (3.0, 1.1)


def test_a_few_calls_do_not_lower_the_policys_ratio() -> None:
    known = Correction(1.35)
    seen = []
    for _ in range(4):
        known = known.after(1100, 1000)
        seen.append(known.ratio)

    assert seen == [1.35, 1.35, 1.35, 1.1]


def test_what_was_learned_for_another_model_is_left_behind() -> None:
    known = Correction(1.35).after(1200, 1000).encode()

    assert Correction.stored(known, 1.0) == Correction(1.0)


def test_nonsense_is_bounded() -> None:
    assert Correction().after(10**11, 1000).ratio == 4.0
    assert Correction().after(1, 1000).ratios == (0.5,)


def test_a_small_context_tells_nothing() -> None:
    assert Correction().after(5000, 100) == Correction()


def test_without_usage_nothing_is_corrected() -> None:
    assert Correction().corrected(4711) == 4711
    assert Correction().error is None
    assert Correction.stored("", 1.0) == Correction()


def test_a_read_before_a_commit_tells_nothing_of_the_context_after_it() -> None:
    told = Told(tokens=1000, version=3, seq=7)

    assert told.counted(4, 7, Usage(tail=900), []) is None
    assert told.counted(3, 8, Usage(tail=900), [(9, 50)]) is None
    assert told.counted(3, 5, Usage(tail=900), [(6, 50)]) is None


def test_turns_after_the_read_are_not_part_of_what_was_reported() -> None:
    told = Told(tokens=1000, version=3, seq=7)

    assert told.counted(3, 6, Usage(tail=900), [(7, 50), (8, 100)]) == 803
    assert Told.stored(told.encode()) == told
    assert Told.stored("") is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (1200, 1200),
        ({"prompt_tokens": 1200, "completion_tokens": 5, "total_tokens": 1205}, 1200),
        (SimpleNamespace(prompt_tokens=1200), 1200),
        ({"input_tokens": 1200, "input_tokens_details": {"cached_tokens": 1000}}, 1200),
        (
            {
                "input_tokens": 100,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 1000,
            },
            1200,
        ),
        (SimpleNamespace(input_tokens=1200, cache_read_input_tokens=None), 1200),
        (SimpleNamespace(prompt_token_count=1200), 1200),
    ],
)
def test_usage_is_taken_as_providers_report_it(usage: Any, tokens: int) -> None:
    assert input_tokens(usage) == tokens


@pytest.mark.parametrize(
    "usage", [0, -1, True, "12", {}, {"input_tokens": "12"}, {"output_tokens": 3}, 10**12, 1.5]
)
def test_what_is_no_usage_is_refused(usage: Any) -> None:
    with pytest.raises(InvalidInput, match="usage: must be a number of input tokens"):
        input_tokens(usage)
