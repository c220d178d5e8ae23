"""What errors of the state store say."""

from __future__ import annotations

import pytest
import redis

from turnmill.connection.transport import server_name, translate
from turnmill.contract.errors import NotPermitted, StoreFull, StoreRefused, StoreUnavailable


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://me:hush@one:7000/3", "one:7000"),
        ("redis://one", "one"),
        ("unix:///run/redis.sock?password=hush", "/run/redis.sock"),
        ("redis+sentinel://:hush@one:1,two:2/shop?sentinel_password=hush", "one:1,two:2"),
        ("rediss+cluster://me:hush@one:1,[::1]:2", "one:1,[::1]:2"),
    ],
)
def test_a_server_is_named_without_its_password(url: str, name: str) -> None:
    assert server_name(url) == f"Redis at {name}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (redis.ResponseError("OOM command not allowed, no permissions to run"), StoreFull),
        (redis.AuthenticationError("no permissions to"), StoreRefused),
        (
            redis.exceptions.NoPermissionError("User BUSY has no permissions to run 'get'"),
            NotPermitted,
        ),
        (redis.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable),
    ],
)
def test_what_is_to_be_done_decides_between_errors(
    error: redis.RedisError, kind: type[Exception]
) -> None:
    assert type(translate(error)) is kind


def test_what_the_caller_was_busy_with_is_no_cause() -> None:
    busy = FileNotFoundError(2, "an agent's own file")
    refused = ConnectionRefusedError(111, "refused")
    refused.__context__ = busy
    error = redis.ConnectionError("no connection")
    error.__context__ = refused

    assert type(translate(error)) is StoreUnavailable
