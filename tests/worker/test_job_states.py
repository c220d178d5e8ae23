"""What Celery, and so Flower, is told of jobs that could not do their work."""

from __future__ import annotations

import ast
import pickle

import pytest
from celery.exceptions import Retry

from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.names import SessionId
from turnmill_worker.tasks import NotDone, _shown

S = SessionId("s")


def test_a_deferred_job_is_one_that_is_tried_again() -> None:
    with pytest.raises(Retry) as raised:
        _shown(Outcome(outcome="deferred", session=S, failed=("RateLimited",), retry_s=2.5))

    told = ast.literal_eval(repr(raised.value.exc))
    assert (told["outcome"], told["retry_s"]) == ("deferred", 2.5)


@pytest.mark.parametrize("outcome", ["parked", "below-quality"])
def test_a_job_that_came_to_nothing_has_failed(outcome: str) -> None:
    with pytest.raises(NotDone) as raised:
        _shown(Outcome.model_validate({"outcome": outcome, "session": S}))

    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - as a forked worker does
    assert ast.literal_eval(repr(again)) == {"outcome": outcome, "session": "s"}


def test_any_other_outcome_is_a_result() -> None:
    assert _shown(Outcome(outcome="skipped", session=S)) == {"outcome": "skipped", "session": "s"}
