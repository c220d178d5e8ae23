"""What commands say of Redis' times, on a machine whose own clock is an hour off."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import redis

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId


@pytest.fixture(params=[-3600.0], autouse=True)
def _wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + request.param)


def test_the_doctor_judges_what_waits_by_redis_clock(
    turnmill: Callable[..., Ran], client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    client.push("s", {"role": "user", "content": "x"})
    keys = session_keys(Namespace(namespace), SessionId("s"))
    redis_client.zadd(keys.unarchived, {"s": redis_client.time()[0] * 1000 - 90_000})
    redis_client.zincrby(keys.backlog, -30_000, "s")

    report = json.loads(turnmill("doctor", "--json").stdout)

    found = {check["name"]: check["status"] for check in report["checks"]}
    assert (found["backlog"], found["archiving"]) == ("warning", "warning")
