"""parked and retry, and what the doctor says of parked sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sessions import RedisSessions


@pytest.fixture
def stuck(client: ContextClient, redis_client: redis.Redis, namespace: str) -> list[str]:
    """Two parked sessions, and one that is not."""
    sessions = RedisSessions(redis_client)
    for name in ("one", "two", "fine"):
        client.push(name, {"role": "user", "content": "private words"})
    for name in ("one", "two"):
        for _ in range(5):
            sessions.failed(SessionRef(Namespace(namespace), SessionId(name)), "KeyError")
    return ["one", "two"]


def checks(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in ran.json["checks"]}


def test_parked_sessions_are_listed_with_their_failures(
    turnmill: Callable[..., Ran], stuck: list[str]
) -> None:
    table = turnmill("parked").stdout
    listed = turnmill("parked", "--json").json

    assert [each["session"] for each in listed] == stuck
    assert {each["error"] for each in listed} == {"KeyError"}
    assert "KeyError" in table
    assert "2 sessions" in table
    assert "fine" not in table
    assert "parked for" in turnmill("info", "one").stdout
    assert "5 compactions failed in a row" in turnmill("info", "one").stdout


def test_sessions_are_retried_by_name_or_all(
    turnmill: Callable[..., Ran], client: ContextClient, stuck: list[str]
) -> None:
    one = turnmill("retry", stuck[0], "fine")
    rest = turnmill("retry", "--all")

    assert "fine is not parked" in one.stderr
    assert "1 session will be compacted again" in one.stdout
    assert "1 session will be compacted again" in rest.stdout
    assert client.parked() == []


@pytest.mark.parametrize("words", [(), ("one", "--all")])
def test_retry_wants_names_or_all(turnmill: Callable[..., Ran], words: tuple[str, ...]) -> None:
    assert turnmill("retry", *words).exit_code == 2


def test_an_unknown_name_does_not_keep_the_others_waiting(
    turnmill: Callable[..., Ran], client: ContextClient, stuck: list[str]
) -> None:
    ran = turnmill("retry", "nobody", *stuck)

    assert ran.exit_code == 1
    assert "nobody" in ran.stderr
    assert "2 sessions will be compacted again" in ran.stdout
    assert client.parked() == []


def test_the_doctor_counts_parked_sessions(turnmill: Callable[..., Ran], stuck: list[str]) -> None:
    assert stuck
    found = checks(turnmill("doctor", "--json"))

    assert found["parked"]["status"] == "warning"
    assert found["parked"]["found"].startswith("2 sessions")
    assert "retry" in found["parked"]["advice"]
