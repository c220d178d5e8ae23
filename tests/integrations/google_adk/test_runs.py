"""Runs of ADK's own runner: what the model is sent, and what the session keeps."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk")

from google.adk.agents.run_config import RunConfig
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.base_session_service import GetSessionConfig

from tests.integrations.google_adk.clerk import (
    APP,
    SESSION,
    USER,
    ClerkEndpoint,
    Office,
    assert_legal,
    clerk,
    text,
)
from tests.integrations.google_adk.conftest import POLICY
from tests.integrations.scripted import huge, question
from tests.processes import wait_until
from tests.specifications.agents import settled
from turnmill import AsyncContextClient, ContextClient, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.integrations.google_adk import TurnmillSessionService


async def test_a_filtered_read_deletes_nothing_and_the_context_stays_the_same(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint
) -> None:
    office = Office(clerk(endpoint), service)
    for number in range(1, 13):
        await office.ask(question(number))
    settled(agents, office.name)
    before = await office.events()

    config = GetSessionConfig(num_recent_events=1)
    found = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION, config=config)
    await office.ask(question(13), RunConfig(get_session_config=config))

    assert found is not None
    assert found.events == before[-1:]
    assert (await office.events())[: len(before)] == before
    assert len(await office.events()) == len(before) + 4
    assert office.plugin.counts.failed == 0
    newest = endpoint.shown[-1]
    assert_legal([newest], agents.info(office.name).limits.hard)
    assert any(question(12) in text(message) for message in newest)


async def test_two_processes_share_a_session_and_an_event_twice_is_one(
    agents: ContextClient,
    service: TurnmillSessionService,
    store: EmbeddedRedis,
    endpoint: ClerkEndpoint,
) -> None:
    one = Office(clerk(endpoint), service)
    async with AsyncContextClient(store.url, namespace=agents.namespace) as client:
        other = Office(clerk(endpoint), TurnmillSessionService(client, POLICY))
        for number in range(1, 9):
            await (one if number % 2 else other).ask(question(number))
        again = (await one.events())[-1]
        session = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        assert session is not None
        await service.append_event(session, again)

    settled(agents, one.name)
    assert one.plugin.counts.failed == other.plugin.counts.failed == 0
    assert len(await one.events()) == agents.info(one.name).last_seq == 32
    assert_legal(endpoint.shown, agents.info(one.name).limits.hard)


@pytest.mark.parametrize("after", range(3))
async def test_a_run_that_is_cancelled_leaves_a_session_that_goes_on(
    agents: ContextClient, service: TurnmillSessionService, endpoint: ClerkEndpoint, after: int
) -> None:
    office = Office(clerk(endpoint), service)
    for number in range(1, 11):
        await office.ask(question(number))
    settled(agents, office.name)
    endpoint.latency_s = 0.2
    asked = len(endpoint.shown)

    run = asyncio.create_task(office.ask(question(11)))
    await asyncio.to_thread(
        wait_until, lambda: len(endpoint.shown) == asked + after, what="a request"
    )
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    endpoint.latency_s = 0.0
    await office.ask(question(12))

    assert office.plugin.counts.failed == 0
    assert_legal(endpoint.shown, agents.info(office.name).limits.hard)
    assert any(question(12) in text(message) for message in endpoint.shown[-1])


class Ends(BasePlugin):
    """Ends Redis right before the model is asked."""

    def __init__(self, server: EmbeddedRedis) -> None:
        super().__init__("ends")
        self._server = server

    async def before_model_callback(self, **_: object) -> None:
        self._server.kill()


async def test_if_redis_goes_away_the_model_is_asked_with_what_adk_has(
    tmp_path_factory: pytest.TempPathFactory, endpoint: ClerkEndpoint
) -> None:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False) as server:
        async with AsyncContextClient(server.url, timeout_s=0.5) as client:
            service = TurnmillSessionService(client, POLICY)
            await Office(clerk(endpoint), service).ask(question(1))
            office = Office(clerk(endpoint), service, Ends(server))
            # Where events cannot be kept, ADK cannot go on: it hears of it after the answer.
            with pytest.raises(StoreUnavailable):
                await office.ask(question(2))

    assert office.plugin.counts.failed == 1
    assert office.plugin.counts.diverged == 0
    assert len(endpoint.shown) == 3
    assert [text(m) for m in endpoint.shown[-1] if m["role"] == "user"] == [
        question(1),
        question(2),
    ]


async def test_a_result_that_is_too_large_is_cut_and_its_event_stays_whole(
    agents: ContextClient,
    service: TurnmillSessionService,
    endpoint: ClerkEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    office = Office(clerk(endpoint), service)
    with monkeypatch.context() as patched:
        patched.setattr("tests.integrations.google_adk.clerk.lying", huge)
        await office.ask(question(1))
    await office.ask(question(2))

    assert office.plugin.counts.failed == 0
    assert len(endpoint.shown) == 4
    assert_legal(endpoint.shown, agents.info(office.name).limits.hard)
    assert "characters removed" in str(endpoint.shown[1])
    assert any(question(2) in text(message) for message in endpoint.shown[-1])
    assert max(len(event.model_dump_json()) for event in await office.events()) > 1_500_000
