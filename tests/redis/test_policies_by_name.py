"""Policies by name: for sessions that follow the name, now and when it changes."""

from __future__ import annotations

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import InvalidName, Policy, UnknownPolicy
from turnmill.contract.keys import policies_key
from turnmill.contract.names import Namespace

ONE, OTHER = Policy(max_tokens=1_000), Policy(max_tokens=2_000)
SHORT = {"role": "user", "content": "word"}


def test_a_session_opened_by_name_has_that_policy(either: Surface) -> None:
    either.set_policy("short", ONE)

    either.open("s", "short")

    assert either.info("s").policy == ONE
    assert either.info("s").policy_name == "short"


def test_a_name_nobody_gave_is_unknown_and_opens_nothing(either: Surface) -> None:
    with pytest.raises(UnknownPolicy, match="'nothing'"):
        either.open("s", "nothing")

    assert either.sessions() == []


def test_sessions_that_follow_a_name_take_up_its_change(either: Surface) -> None:
    either.set_policy("short", ONE)
    for session in ("a", "b"):
        either.open(session, "short")
    either.open("own", ONE)

    assert either.set_policy("short", OTHER) == 2

    assert [either.info(s).policy for s in ("a", "b", "own")] == [OTHER, OTHER, ONE]


def test_a_change_counts_at_the_next_decision(either: Surface, worker: Worker) -> None:
    either.set_policy("short", Policy(max_tokens=8_000))
    either.open("s", "short")
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    assert worker.work("s") == "skipped"

    either.set_policy("short", Policy(max_tokens=512))

    assert either.info("s").pending_for_s is not None
    assert worker.work("s") == "committed"


def test_a_session_opened_with_a_policy_of_its_own_follows_no_name(either: Surface) -> None:
    either.set_policy("short", ONE)
    either.open("s", "short")

    either.open("s", OTHER)
    either.set_policy("short", Policy(max_tokens=3_000))

    assert either.info("s").policy == OTHER
    assert either.info("s").policy_name == ""


def test_a_change_of_the_prompt_leaves_the_name(either: Surface) -> None:
    either.set_policy("short", ONE)
    either.open("s", "short")

    either.open("s", system_prompt="You are terse.")

    assert either.info("s").policy_name == "short"


@pytest.mark.parametrize("how", ["push", "push_many", "open"])
def test_sessions_without_a_policy_follow_the_default(either: Surface, how: str) -> None:
    either.set_policy("default", ONE)

    if how == "push":
        either.push("s", SHORT)
    elif how == "push_many":
        either.push_many([("s", SHORT)] * 2)
    else:
        either.open("s")

    assert either.info("s").policy == ONE
    assert either.set_policy("default", OTHER) == 1
    assert either.info("s").policy == OTHER


def test_without_a_default_sessions_have_the_built_in_policy(either: Surface) -> None:
    either.push("s", SHORT)

    assert either.info("s").policy == Policy()


def test_forgotten_sessions_do_not_come_back_with_a_change(either: Surface) -> None:
    either.set_policy("short", ONE)
    either.open("s", "short")
    either.forget("s")

    assert either.set_policy("short", OTHER) == 0
    assert either.sessions() == []


def test_policies_are_listed_by_name(either: Surface) -> None:
    either.set_policy("b", OTHER)
    either.set_policy("a", ONE)

    assert list(either.policies().items()) == [("a", ONE), ("b", OTHER)]


def test_names_are_checked(either: Surface) -> None:
    with pytest.raises(InvalidName):
        either.set_policy("no name", ONE)


def test_namespaces_have_policies_of_their_own(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    either.set_policy("short", ONE)

    assert redis_client.hkeys(policies_key(Namespace(namespace))) == [b"short"]
    assert redis_client.exists(policies_key(Namespace(f"{namespace}x"))) == 0
