"""A pytest plugin: the contract that ADK's own tests state of session services, held to ours.

Their tests that take the fixture ``session_service`` say what every service owes its callers. All
others are about one service of theirs, and are left out.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from turnmill import AsyncContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.integrations.google_adk import TurnmillSessionService


@pytest.fixture(scope="session")
def turnmill_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """One server for the run."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


@pytest.fixture
async def session_service(turnmill_redis: EmbeddedRedis) -> AsyncIterator[TurnmillSessionService]:
    """Ours, in a namespace of the test's own."""
    namespace = f"t{uuid.uuid4().hex[:12]}"
    client = AsyncContextClient(turnmill_redis.url, namespace=namespace, broker=SilentWaker())
    async with client:
        yield TurnmillSessionService(client)


def pytest_collectstart(collector: Any) -> None:
    """Put our fixture in place of theirs, before it is found."""
    if isinstance(collector, pytest.Module) and hasattr(collector.obj, "session_service"):
        collector.obj.session_service = session_service


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the contract's tests."""
    others = [item for item in items if not _is_contract(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if _is_contract(item)]


def _is_contract(item: Any) -> bool:
    # One that gives the fixture's value itself is about that service.
    given = getattr(getattr(item, "callspec", None), "params", {})
    return "session_service" in getattr(item, "fixturenames", ()) and "session_service" not in given
