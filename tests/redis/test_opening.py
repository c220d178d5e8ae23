"""Opening creates a session or changes it; what makes no sense changes nothing."""

from __future__ import annotations

import pytest

from tests.redis.conftest import Surface, Worker
from turnmill import Policy, SystemPromptTooLarge

HI = {"role": "user", "content": "hi"}
SMALL = Policy(max_tokens=512)
TOO_LONG = "rule " * 600


def test_an_opened_session_has_its_policy_and_prompt(either: Surface) -> None:
    either.open("s", SMALL, "You are terse.")

    assert either.info("s").policy == SMALL
    assert either.read("s").messages == [{"role": "system", "content": "You are terse."}]


def test_none_leaves_what_is_there(either: Surface) -> None:
    either.open("s", SMALL, "You are terse.")

    either.open("s")

    assert either.info("s").policy == SMALL
    assert either.read("s").messages[0]["content"] == "You are terse."


def test_an_empty_prompt_removes_the_prompt(either: Surface) -> None:
    either.open("s", None, "You are terse.")

    either.open("s", None, "")

    assert either.read("s").messages == []
    assert either.info("s").usage.system == 0


def test_opening_again_unchanged_asks_for_no_work(either: Surface, worker: Worker) -> None:
    either.open("s", SMALL, "You are terse.")
    worker.pipeline.estimate(worker.ref("s"))

    either.open("s", SMALL, "You are terse.")

    assert either.info("s").pending_for_s is None


def test_a_changed_policy_is_looked_at_by_a_worker(either: Surface, worker: Worker) -> None:
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    worker.pipeline.estimate(worker.ref("s"))

    either.open("s", SMALL)

    assert worker.work("s") == "committed"
    assert either.info("s").usage.total <= SMALL.limits(0).target


def test_a_session_that_was_only_pushed_to_has_the_default_policy(either: Surface) -> None:
    either.push("s", HI)

    assert either.info("s").policy == Policy()


def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(either: Surface) -> None:
    with pytest.raises(SystemPromptTooLarge, match=r"tokens.*512") as refused:
        either.open("s", SMALL, TOO_LONG)

    assert "rule" not in str(refused.value)


def test_a_refused_prompt_creates_nothing(either: Surface) -> None:
    with pytest.raises(SystemPromptTooLarge):
        either.open("s", SMALL, TOO_LONG)

    assert either.sessions() == []


def test_a_refused_prompt_changes_nothing(either: Surface) -> None:
    either.open("s", SMALL, "You are terse.")

    with pytest.raises(SystemPromptTooLarge):
        either.open("s", Policy(max_tokens=600), TOO_LONG)

    assert either.info("s").policy == SMALL
    assert either.read("s").messages[0]["content"] == "You are terse."


def test_a_policy_too_small_for_the_prompt_there_is_refused(either: Surface) -> None:
    either.open("s", Policy(max_tokens=4096), TOO_LONG)

    with pytest.raises(SystemPromptTooLarge):
        either.open("s", SMALL)

    assert either.info("s").policy.max_tokens == 4096


def test_sessions_are_listed_the_latest_first(either: Surface, worker: Worker) -> None:
    for name in ("one", "two", "three"):
        either.push(name, HI)
        worker.pipeline.estimate(worker.ref(name))

    either.push("one", HI)

    assert either.sessions()[0] == "one"
    assert sorted(either.sessions()) == ["one", "three", "two"]


def test_sessions_of_another_namespace_are_not_listed(either: Surface) -> None:
    either.push("mine", HI)

    assert either.sessions() == ["mine"]
