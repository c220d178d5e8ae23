"""A real server, over real HTTP, before a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from turnmill import SilentWaker
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.server.app import Settings, create_api, guarded
from turnmill.server.http import Http

Serving = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def _serving(settings: Settings, key: str = "") -> AsyncIterator[httpx.AsyncClient]:
    api, port = create_api(settings), free_port()
    config = uvicorn.Config(
        guarded(api, settings), port=port, http=Http, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
        yield client
    api.state.events.close()
    server.should_exit = True
    await running


@pytest.fixture
def serving(redis_server: EmbeddedRedis, namespace: str) -> Serving:
    """Starts a server and gives a client of it; everybody is in the test's namespace."""

    def start(key: str = "", **given: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        usual = {"redis": redis_server.url, "broker": SilentWaker(), "no_auth": namespace}
        return _serving(Settings(**{**usual, **given}), key)

    return start


@pytest.fixture
async def http(serving: Serving) -> AsyncIterator[httpx.AsyncClient]:
    """A client of such a server."""
    async with serving() as client:
        yield client
