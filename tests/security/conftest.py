"""Servers with the users of deploy/acl, of each version there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.deploy.processes import redis_servers
from tests.security.roles import add_user, line_of
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture(scope="module", params=[*redis_servers().values()], ids=[*redis_servers()])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis]:
    """A server with all users of a store; its default user is the tests'."""
    folder = tmp_path_factory.mktemp("guarded")
    with EmbeddedRedis(folder, durable=False, binary=request.param) as server:
        with redis.Redis.from_url(server.url) as admin:
            for role in ("agents", "workers", "operator"):
                add_user(admin, line_of(role))
            add_user(admin, line_of("agents", "desk"))
        yield server


@pytest.fixture
def admin(guarded: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(guarded.url) as client:
        yield client
