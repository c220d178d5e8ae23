"""A step pushes and reads in one round trip, and does what the two would do one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.redis.conftest import Connect, Surface, Worker
from tests.redis.test_reading_on import CHANGES, SMALL, Change, said
from turnmill import Context, ContextClient, InvalidTurn, Policy, SilentWaker, StoreFull
from turnmill.connection.embedded import EmbeddedRedis


def trips(redis_client: redis.Redis) -> int:
    """How often the server has read from a connection; the question counts, too."""
    stats: Any = redis_client.info("stats")
    return int(stats["total_reads_processed"])


def read_anew(redis_server: EmbeddedRedis, namespace: str) -> Context:
    """What a client gets that knows nothing of the session."""
    with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as fresh:
        return fresh.read("s")


def test_a_step_is_one_round_trip(either: Surface, redis_client: redis.Redis) -> None:
    either.step("s", said(0))
    either.step("s", said(1))
    before = trips(redis_client)

    for at in range(10):
        either.step("s", said(at))

    assert trips(redis_client) - before == 10 + 1


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_step_returns_what_a_read_behind_a_push_would(
    either: Surface,
    client: ContextClient,
    worker: Worker,
    redis_server: EmbeddedRedis,
    namespace: str,
    change: Change,
) -> None:
    either.open("s", SMALL, "You help.")
    projected = 0
    for at in range(16):
        if at % 5 == 4:
            change(client, worker)

        found = either.step("s", said(at))

        assert found == read_anew(redis_server, namespace)
        assert found.messages[-1] == said(at)
        projected += found.projection is not None
    assert projected or change is not CHANGES["nothing"]


def test_a_turn_pushed_again_is_there_once(either: Surface) -> None:
    first = either.step("s", said(0), turn_id="a")
    again = either.step("s", said(0), turn_id="a")

    assert again == first
    assert again.last_seq == 1


def test_many_turns_and_their_context_take_one_trip(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.step("s", {"messages": [said(0)], "turn_id": "a"})
    before = trips(redis_client)

    pushed, context = either.step_many(
        "s", [{"messages": [said(at)], "turn_id": name} for at, name in enumerate("abc")]
    )

    assert trips(redis_client) - before == 1 + 1
    assert [(one.seq, one.duplicate) for one in pushed] == [(1, True), (2, False), (3, False)]
    assert context.messages == [said(0), said(1), said(2)]
    assert either.step_many("s", []) == ([], context)


def test_a_script_that_the_server_lost_is_sent_again_and_the_turn_is_there_once(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.step("s", said(0))
    raw: Any = redis_client
    raw.script_flush()

    assert either.step("s", said(1)).messages == [said(0), said(1)]


def test_what_is_refused_stores_nothing_and_the_next_step_is_as_any(
    connect: Connect, own_server: EmbeddedRedis
) -> None:
    client = connect(own_server.url)
    client.step("s", said(0))
    with pytest.raises(InvalidTurn):
        client.step("s", {"role": "nobody", "content": "hi"})
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)
        with pytest.raises(StoreFull):
            client.step("s", said(1))
        plain.config_set("maxmemory", 0)
        stats: Any = plain.info("commandstats")

        assert client.step("s", said(2)).messages == [said(0), said(2)]
        now: Any = plain.info("commandstats")

    assert now["cmdstat_hgetall"]["calls"] == stats["cmdstat_hgetall"]["calls"]


def test_a_new_session_s_first_step_follows_the_namespace_s_policy(either: Surface) -> None:
    either.set_policy("default", Policy(max_tokens=512))

    assert either.step("s", {"role": "user", "content": "word " * 3000}).tokens <= 512


def test_a_step_that_makes_nothing_due_needs_no_hint(either: Surface, worker: Worker) -> None:
    either.step("s", said(0))
    worker.pipeline.estimate(worker.ref("s"))
    hinted = either.hints.dropped

    for at in range(20):
        either.step("s", said(at))

    assert hinted == either.hints.dropped == 1


def test_images_are_pushed_and_shown_in_a_step(
    either: Surface, client: ContextClient, redis_client: redis.Redis
) -> None:
    either.step("s", said(0))
    seen = either.step("s", showing(png(1)))
    client.push("s", showing(png(2)))
    before = trips(redis_client)

    both = either.step("s", showing(png(1)))

    assert seen.messages[-1] == showing(png(1))
    assert [m == showing(png(at)) for m, at in zip(both.messages[1:], (1, 2, 1), strict=True)] == [
        True
    ] * 3
    assert trips(redis_client) - before == 2 + 1  # one for the image that another client pushed


def test_a_step_tells_what_the_provider_counted_for_the_one_before(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    context = either.step("s", said(0))

    either.step("s", said(1), usage=777)

    raw: Any = redis_client
    assert raw.hget(worker.keys("s").meta, "told").decode() == f"777 {context.version} 1"


def test_a_step_of_the_session_s_handle_is_the_client_s(either: Surface) -> None:
    handle = either.manager("s")
    found: Any = handle.step(said(0))
    if not isinstance(found, Context):
        found = either._loop.run_until_complete(found)

    assert found.messages == [said(0)]
