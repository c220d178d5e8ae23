"""A server, a worker, and clients of the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from agents import OpenAIResponsesModel
from openai import AsyncOpenAI

from tests.integrations.openai_agents.scripted import ScriptedResponses
from tests.processes import WorkerProcess
from turnmill import AsyncContextClient
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The module's worker."""
    with WorkerProcess(
        store.url,
        tmp_path_factory.mktemp("worker"),
        name="agents",
        pool="threads",
        concurrency=3,
    ) as running:
        yield running


@pytest_asyncio.fixture
async def client(store: EmbeddedRedis, namespace: str) -> AsyncIterator[AsyncContextClient]:
    """A client as an agent has it."""
    async with AsyncContextClient(store.url, namespace=namespace, timeout_s=2.0) as made:
        yield made


@pytest.fixture
def endpoint() -> Iterator[ScriptedResponses]:
    """A model that answers what the test tells it to."""
    with ScriptedResponses() as served:
        yield served


@pytest_asyncio.fixture
async def model(endpoint: ScriptedResponses) -> AsyncIterator[OpenAIResponsesModel]:
    """The framework's own model, which asks the endpoint."""
    async with AsyncOpenAI(base_url=endpoint.base_url, api_key="none", max_retries=0) as asking:
        yield OpenAIResponsesModel("gpt-5-mini", asking)
