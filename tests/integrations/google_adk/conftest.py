"""Agents of ADK's with a real Celery worker behind their sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integrations.google_adk.clerk import ClerkEndpoint
from tests.specifications.conftest import worker
from turnmill import AsyncContextClient, Policy
from turnmill.integrations.google_adk import TurnmillSessionService

__all__ = ["endpoint", "service", "worker"]

POLICY = Policy(max_tokens=1600, quality_threshold=0.0)


@pytest.fixture
async def endpoint() -> AsyncIterator[ClerkEndpoint]:
    """A model over HTTP that looks every ship up."""
    with ClerkEndpoint() as running:
        yield running
        for client in running.clients:
            await client.close()


@pytest.fixture
def service(async_agents: AsyncContextClient) -> TurnmillSessionService:
    """The service of one process."""
    return TurnmillSessionService(async_agents, POLICY)
