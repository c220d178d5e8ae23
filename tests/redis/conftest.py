"""One surface over both clients, and a worker's pipeline that runs when a test says so."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import redis

from tests.going_back import WAYS, GoingBack
from tests.properties.stepping import SentHints
from turnmill import AsyncContextClient, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.codec import decode_json
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.background.quotas import Quotas, QuotaWatch
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.export import Exporting
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.reports import RedisUsage
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisWaiting
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for


@pytest.fixture(autouse=True)
def _alone(redis_client: redis.Redis) -> None:
    """Empty the shared server: a sweep visits every namespace that earlier tests have left."""
    redis_client.flushall()


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
CLIENTS = (ContextClient, AsyncContextClient)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> type[ContextClient | AsyncContextClient]:
    """One is generated from the other: each is tried by half of the tests, both by some modules."""
    return CLIENTS[crc32(request.node.nodeid.encode()) % 2]


@pytest.fixture
def connect(kind: Callable[..., Any]) -> Iterator[Connect]:
    """Makes a client of the kind under test for a URL."""
    made: list[Surface] = []

    def make(url: str, **options: Any) -> Surface:
        options.setdefault("broker", SilentWaker())
        made.append(Surface(lambda: kind(url, **options)))
        return made[-1]

    yield make
    for surface in made:
        surface.end()


@pytest.fixture
def either(connect: Connect, redis_server: EmbeddedRedis, namespace: str) -> Surface:
    """A client of the kind under test, in the test's namespace."""
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
            waiting=RedisWaiting(client),
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


def commit_from(worker: Worker, snapshot: Snapshot | None) -> tuple[Any, ...]:
    """What a worker would commit from this snapshot: arguments for ``sessions.commit``."""
    assert snapshot is not None
    kept: dict[str, Any] = {}

    class Catching:
        """A worker that thinks until it would commit, and then is asked what."""

        def __getattr__(self, name: str) -> Any:
            return getattr(worker.sessions, name)

        def snapshot(self, _ref: object) -> Snapshot | None:
            return snapshot

        def commit(self, *args: Any, **options: Any) -> Any:
            kept.update(args=args, options=options)
            raise KeyboardInterrupt

    pipeline = type(worker.pipeline)(
        sessions=Catching(),
        hints=worker.hints,
        counters=worker.pipeline._ports.counters,
        summarizers=lambda _policy: [ExtractiveSummarizer()],
        templates=TemplateLoader(),
    )
    with pytest.raises(KeyboardInterrupt):
        pipeline.summarize(worker.ref(snapshot.session))
    return kept["args"], kept["options"]


SHOP = "shop"


class Site:
    """An agent and a worker, whose Redis may go back; the archive does not."""

    def __init__(self, store: GoingBack, archive: SqlArchive) -> None:
        self.store = store
        self.archive = archive

        self.redis = redis.Redis.from_url(self.store.url)
        self.reached = redis.Redis.from_url(self.store.url)
        self.agent = ContextClient(self.reached, namespace=SHOP, broker=SilentWaker())
        self.worker = Worker(self.redis, SHOP)
        self.archiving = self.archiving_with(self.archive)
        self.exporting = Exporting(RedisStates(self.redis), RedisOutgoing(self.redis), self.archive)

    def archiving_with(self, archive: SqlArchive) -> Archiving:
        """A worker's archiving."""
        return Archiving(
            RedisOutgoing(self.redis), RedisStates(self.redis), archive, self.worker.hints
        )

    def go_back(self) -> None:
        """Have Redis return to the state that was noted; everybody reconnects to where it is."""
        self.store.go_back()
        port = int(self.store.url.split(":")[2].split("/")[0])
        for client in (self.redis, self.reached):
            client.connection_pool.connection_kwargs["port"] = port
            client.connection_pool.reset()

    def say(self, words: str, turns: int = 12) -> list[str]:
        """Push turns that begin with these words; returns their texts."""
        said = [f"{words} {at}" + " word" * 60 for at in range(turns)]
        for text in said:
            self.agent.push("s", {"role": "user", "content": text})
        return said

    def compact(self) -> None:
        """Commit once."""
        assert self.worker.work("s") == "committed"

    def store_away(self) -> None:
        """Archive all that waits."""
        self.archiving.archive(self.worker.ref("s"))

    def archived(self) -> list[str]:
        """The texts of the turns that the archive calls part of the conversation."""
        found = self.archive.turns(self.worker.ref("s"))
        return [decode_json(turn.messages)[0]["content"] for turn in found if turn.state == "kept"]

    def told(self) -> list[str]:
        """The texts of the conversation, as they are exported."""
        found = self.exporting.trajectory(self.worker.ref("s"))
        assert [turn.seq for turn in found.turns] == sorted({turn.seq for turn in found.turns})
        kept = [turn for turn in found.turns if turn.state == "kept"]
        return [str(turn.messages[0]["content"]) for turn in kept]

    def lost(self) -> list[tuple[int, int, int]]:
        """Turns, first and last seq of each branch that Redis lost."""
        found = self.exporting.trajectory(self.worker.ref("s")).lost
        return [(each.turns, each.first_seq, each.last_seq) for each in found]

    def remembered(self) -> list[str]:
        """The texts of the turns that the archive remembers."""
        found = self.archive.memories(Namespace(SHOP))
        return [memory.text for _, memory in found if memory.kind == "turn"]

    def rollback(self, to: str | int | None = None) -> None:
        """Go back to a checkpoint, as a worker does."""
        Rollback(RedisStates(self.redis), self.archive, counter_for).rollback(
            self.worker.ref("s"), to
        )


@pytest.fixture
def way(request: pytest.FixtureRequest) -> type[GoingBack]:
    """How Redis goes back: one of the three for each test, all for those parametrized with them."""
    return WAYS[crc32(request.node.nodeid.encode()) % len(WAYS)]


@pytest.fixture
def site(way: type[GoingBack], tmp_path: Path) -> Iterator[Site]:
    opened = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    with closing(opened), way(tmp_path) as store:
        made = Site(store, opened)
        made.agent.open("s", Policy(max_tokens=512))
        yield made


@pytest.fixture
def measure(
    redis_client: redis.Redis, worker: Worker, tmp_path: Path
) -> Callable[[str], QuotaWatch]:
    """Measure the client's namespace under these quotas, as a sweep does."""

    def run(quota: str) -> QuotaWatch:
        file = tmp_path / "quotas.toml"
        file.write_text(f"[default]\n{quota}\n")
        watch = QuotaWatch(Quotas(file), RedisUsage(redis_client))
        watch.run([worker.ref("s").namespace])
        return watch

    return run
