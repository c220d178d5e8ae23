"""Usage an agent tells of: limits are kept in the provider's tokens, and info shows the error."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle

import pytest

from tests.redis.conftest import Surface, Worker
from turnmill import Context, InvalidInput, Policy
from turnmill_worker.tokens import count_request, counter_for

POLICY = Policy(max_tokens=4096, quality_threshold=0)


def user(at: int) -> dict[str, str]:
    return {"role": "user", "content": f"question {at} " + "word " * 60}


def answer(at: int) -> dict[str, str]:
    return {"role": "assistant", "content": f"answer {at} " + "text " * 40}


def provider(ratio: float) -> Callable[[Context], int]:
    """Counts what it is sent in tokens of its own."""
    return lambda context: math.ceil(count_request(counter_for(), context.messages) * ratio)


def steps(either: Surface, worker: Worker, count: Callable[[Context], int], n: int) -> list[int]:
    """So many steps of an agent that tells of usage; returns what the provider counted."""
    counted = []
    for at in range(n):
        either.push("s", user(at))
        read = either.read("s")
        counted.append(count(read))
        usage = {"prompt_tokens": counted[-1]}
        either.push("s", answer(at), usage=usage)
        worker.work("s")
    return counted


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.3, 2.5])
def test_the_limit_is_kept_in_the_providers_tokens(
    either: Surface, worker: Worker, ratio: float
) -> None:
    either.open("s", POLICY, "You are terse.")

    counted = steps(either, worker, provider(ratio), 40)

    # The first calls are what it is learned from.
    assert all(tokens <= POLICY.max_tokens for tokens in counted)
    assert max(counted) > POLICY.max_tokens * 0.6
    found = either.info("s")
    assert found.correction.ratio == pytest.approx(ratio, abs=0.01)
    assert found.correction.error == pytest.approx(0, abs=0.01)
    assert found.limits.hard == POLICY.max_tokens
    assert found.compactions > 0


def test_tokens_are_the_providers_once_they_are_known(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)
    count = provider(1.3)
    steps(either, worker, count, 8)

    read, found = either.read("s"), either.info("s")

    assert count(read) <= read.tokens <= count(read) * 1.01 + 1
    assert found.usage.total == pytest.approx(read.tokens, abs=5)


def test_a_ratio_that_varies_is_bounded_by_its_largest_and_its_error_is_told(
    either: Surface, worker: Worker
) -> None:
    either.open("s", POLICY)
    counts = cycle([provider(1.1), provider(1.3)])

    def count(read: Context) -> int:
        return next(counts)(read)

    counted = steps(either, worker, count, 30)

    found = either.info("s")
    assert all(tokens <= POLICY.max_tokens for tokens in counted)
    assert found.correction.ratio == pytest.approx(1.3, abs=0.01)
    assert found.correction.error == pytest.approx(1 - 1.1 / 1.3, abs=0.02)


def test_the_first_usage_asks_for_a_count_at_once(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)
    worker.pipeline.estimate(worker.ref("s"))
    for at in range(6):
        either.push("s", user(at))
        either.push("s", answer(at))
    quiet = either.info("s").pending_for_s
    read = either.read("s")

    either.push("s", answer(9), usage=provider(1.3)(read))

    assert quiet is None
    assert either.info("s").pending_for_s is not None
    worker.pipeline.estimate(worker.ref("s"))
    assert either.info("s").correction.ratio == pytest.approx(1.3, abs=0.01)


def test_usage_without_a_read_tells_nothing(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)

    for at in range(12):
        either.push("s", user(at), usage=5000)
        worker.pipeline.estimate(worker.ref("s"))

    assert either.info("s").correction.ratios == ()


def test_a_projected_context_tells_nothing(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)
    either.push_many([("s", user(at)) for at in range(80)])
    assert either.read("s").projection is not None

    either.push("s", answer(0), usage=4000)
    worker.pipeline.estimate(worker.ref("s"))

    assert either.info("s").correction.ratios == ()


def test_a_policy_for_another_model_begins_anew(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)
    steps(either, worker, provider(1.3), 8)

    either.open("s", Policy(max_tokens=4096, token_ratio=1.8))

    assert either.info("s").correction.ratio == 1.8


def test_counts_of_another_encoding_begin_anew(either: Surface, worker: Worker) -> None:
    either.open("s", POLICY)
    steps(either, worker, provider(1.3), 8)

    either.open("s", POLICY.model_copy(update={"encoding": "cl100k_base"}))
    worker.pipeline.estimate(worker.ref("s"))

    assert either.info("s").correction.ratios == ()


def test_what_is_no_usage_stores_nothing(either: Surface) -> None:
    with pytest.raises(InvalidInput, match="usage"):
        either.push("s", user(0), usage={"output_tokens": 5})

    assert either.sessions() == []


def test_a_policys_ratio_holds_until_usage_is_told(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=4096, quality_threshold=0, token_ratio=1.8))
    count = provider(1.8)

    for at in range(40):
        either.push("s", user(at))
        read = either.read("s")
        assert count(read) <= read.tokens <= 4096
        if at % 5 == 4:
            worker.work("s")
    assert either.info("s").compactions > 0
