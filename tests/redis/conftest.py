"""One surface over both clients, and a worker's pipeline that runs when a test says so."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.properties.stepping import SentHints
from turnmill import AsyncContextClient, ContextClient, SilentWaker
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.summarizers.extractive.summarizer import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for


class Surface:
    """Either client, called the same way: an asynchronous one is run to its answer."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self.client = make()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.client, name)
        if not inspect.iscoroutinefunction(member):
            return member
        return lambda *args, **kwargs: self._loop.run_until_complete(member(*args, **kwargs))

    def end(self) -> None:
        """Close the client and its loop."""
        self.__getattr__("close")()
        self._loop.close()


Connect = Callable[..., Surface]


@pytest.fixture(params=[ContextClient, AsyncContextClient])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes a client of the kind under test for a URL."""
    made: list[Surface] = []

    def make(url: str, **options: Any) -> Surface:
        options.setdefault("broker", SilentWaker())
        made.append(Surface(lambda: request.param(url, **options)))
        return made[-1]

    yield make
    for surface in made:
        surface.end()


@pytest.fixture
def either(connect: Connect, redis_server: EmbeddedRedis, namespace: str) -> Surface:
    """The synchronous client, then the asynchronous one."""
    return connect(redis_server.url, namespace=namespace)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A server this test may break."""
    with EmbeddedRedis(tmp_path / "own", durable=False) as server:
        yield server


class Worker:
    """A worker's stages over the test's namespace, run by hand."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        self._namespace = Namespace(namespace)
        self.sessions = RedisSessions(client)
        self.hints = SentHints()
        self.pipeline = Pipeline(
            templates=TemplateLoader(),
            sessions=self.sessions,
            hints=self.hints,
            counters=counter_for,
            summarizers=lambda _policy: [ExtractiveSummarizer()],
        )

    def ref(self, session: str) -> SessionRef:
        """The session as jobs name it."""
        return SessionRef(self._namespace, SessionId(session))

    def keys(self, session: str) -> SessionKeys:
        """The keys of the session."""
        return session_keys(self._namespace, SessionId(session))

    def work(self, session: str) -> str:
        """Estimate and compact once; returns what became of the compaction."""
        self.pipeline.estimate(self.ref(session))
        return self.pipeline.summarize(self.ref(session)).outcome


@pytest.fixture
def worker(redis_client: redis.Redis, namespace: str) -> Worker:
    """A worker for the test's namespace."""
    return Worker(redis_client, namespace)
