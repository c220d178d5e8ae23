"""What is left of a session when it or a turn of it is erased, and what is stored of it."""

from __future__ import annotations

import pytest
import redis

pytest.importorskip("google.adk")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from tests.integrations.google_adk.clerk import APP, SESSION, USER
from tests.plain_cipher import cipher
from turnmill import AsyncContextClient, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.integrations.google_adk import TurnmillSessionService


def event(said: str, **state: object) -> Event:
    """One of a user's, which changes some values."""
    content = types.Content(role="user", parts=[types.Part(text=said)])
    return Event(author="user", content=content, actions=EventActions(state_delta=dict(state)))


async def test_a_deleted_session_leaves_no_key_and_is_on_no_list(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    async with AsyncContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker()
    ) as client:
        service = TurnmillSessionService(client, Policy(ttl_s=600))
        session = await service.create_session(
            app_name=APP, user_id=USER, session_id=SESSION, state={"berth": 4}
        )
        await service.append_event(session, event("My ship is the Aurora.", ship="Aurora"))
        keys = session_keys(
            Namespace(namespace), SessionId(service.session_name(APP, USER, SESSION))
        )
        for key in (keys.events, keys.state):
            assert 590_000 < int(redis_client.pttl(key)) <= 600_000
        with pytest.raises(AlreadyExistsError):
            await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)

        await service.delete_session(app_name=APP, user_id=USER, session_id=SESSION)

        assert redis_client.exists(*keys.owned) == 0
        assert (await service.list_sessions(app_name=APP)).sessions == []
        assert (await service.list_sessions(app_name=APP, user_id=USER)).sessions == []
    left = b" ".join(redis_client.scan_iter(match=f"*{namespace}*shared*"))
    assert left == b""


async def test_a_session_that_has_expired_is_taken_off_the_lists(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    async with AsyncContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker()
    ) as client:
        service = TurnmillSessionService(client)
        for name in ("old", "new"):
            await service.create_session(app_name=APP, user_id=USER, session_id=name)
        old = SessionId(service.session_name(APP, USER, "old"))
        redis_client.delete(*session_keys(Namespace(namespace), old).owned)

        found = [await service.list_sessions(app_name=APP, user_id=u) for u in (None, USER)]

        assert [[each.id for each in one.sessions] for one in found] == [["new"], ["new"]]


async def test_an_erased_turn_takes_its_event_with_it(
    agents: ContextClient, service: TurnmillSessionService, store: EmbeddedRedis
) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
    said = ["The pier is open.", "My code is SESAME-4711.", "Thank you."]
    for each in said:
        await service.append_event(session, event(each))
    name = service.session_name(APP, USER, SESSION)

    agents.erase(name, matching="SESAME-4711")

    found = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
    assert found is not None
    texts = [part.text for e in found.events if e.content for part in e.content.parts or ()]
    assert texts == [said[0], said[2]]
    with redis.Redis.from_url(store.url) as raw:
        keys = session_keys(Namespace(agents.namespace), SessionId(name))
        stored = b" ".join(raw.hgetall(keys.events).values())
        assert b"SESAME" not in stored
        assert raw.pttl(keys.events) > 0


async def test_with_a_cipher_nothing_said_is_stored_plain(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    async with AsyncContextClient(
        redis_server.url, namespace=namespace, broker=SilentWaker(), cipher=cipher
    ) as client:
        service = TurnmillSessionService(client)
        values = {"a": "AURORA", "user:b": "AURORA", "app:c": "AURORA"}
        session = await service.create_session(
            app_name=APP, user_id=USER, session_id=SESSION, state=values
        )
        await service.append_event(session, event("My ship is the AURORA.", ship="AURORA"))
        found = await service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
        listed = (await service.list_sessions(app_name=APP)).sessions

    assert found == session
    assert found is not None
    assert found.state == listed[0].state == {**values, "ship": "AURORA"}
    for key in redis_client.scan_iter(match=f"*{namespace}*"):
        if redis_client.type(key) == b"hash":
            assert not any(b"AURORA" in value for value in redis_client.hvals(key))
