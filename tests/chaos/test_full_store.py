"""A Redis at `maxmemory`: pushes are refused and say why, and workers free it without help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.deploy.processes import redis_servers
from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, Policy, SilentWaker, StoreFull
from turnmill.connection.embedded import EmbeddedRedis

ROOM = 800_000
FREED_S = 90.0
POLICY = Policy(max_tokens=4_000, quality_threshold=0.0)


@pytest.fixture(scope="module", params=[*redis_servers().values()], ids=[*redis_servers()])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis]:
    folder = tmp_path_factory.mktemp("full")
    with EmbeddedRedis(folder, durable=False, binary=request.param) as running:
        yield running


@pytest.fixture
def plain(server: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as made:
        made.config_set("maxmemory", 0)
        with suppress(redis.ResponseError):  # 6.2 has none
            # Each command that is used for the first time would take 24 kB of the room, for good.
            made.config_set("latency-tracking", "no")
        made.flushall()
        yield made
        made.config_set("maxmemory", 0)


def pushed_until_full(server: EmbeddedRedis, plain: redis.Redis) -> StoreFull:
    """Fill the server by pushes alone, all hints lost; the error of the push that it refused."""
    plain.config_set("maxmemory", plain.info("memory")["used_memory"] + ROOM)
    with ContextClient(server.url, broker=SilentWaker()) as client:
        for at in range(4):
            client.open(f"s{at}", POLICY)
        for at in range(10_000):
            text = f"Parcel {at} goes to street {at * 7}. " * 40
            try:
                client.push(f"s{at % 4}", {"role": "user", "content": text})
            except StoreFull as error:
                return error
    raise AssertionError("the server never became full")


def test_a_refused_push_says_what_is_full_and_what_to_do(
    server: EmbeddedRedis, plain: redis.Redis
) -> None:
    told = str(pushed_until_full(server, plain))

    assert f"127.0.0.1:{server.port}" in told
    assert f"of maxmemory {plain.info('memory')['maxmemory']:,} bytes" in told
    assert "Parcel" not in told


@pytest.mark.worker
def test_workers_free_a_full_server_without_help(
    server: EmbeddedRedis, plain: redis.Redis, tmp_path: Path
) -> None:
    pushed_until_full(server, plain)
    limit = plain.info("memory")["maxmemory"]
    archive = {"TURNMILL_ARCHIVE_URL": f"sqlite:///{tmp_path}/archive.db"}

    # Its broker is full, too: it takes no tasks before there is room.
    with WorkerProcess(server.url, tmp_path, env=archive, ready_within_s=FREED_S) as worker:
        wait_until(
            lambda: plain.info("memory")["used_memory"] < limit - ROOM / 4,
            within_s=FREED_S,
            what="freed",
        )
        with ContextClient(server.url) as client:
            for at in range(4):
                client.push(f"s{at}", {"role": "user", "content": "And now?"})
                assert client.read(f"s{at}").messages[-1]["content"] == "And now?"
        # Its transport tells with a traceback that it could not note a queue's binding then.
        told = worker.output()
        errors = told.count("Traceback (most") - told.count("During handling of the above")
        assert errors == told.count("maybe_refresh_binding_expiry: Redis error")
