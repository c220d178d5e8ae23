"""A read is never behind, never over the limit, and as whole as if everything were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.read_twice import ReadsTwice
from tests.redis.conftest import SHOP, Connect, Site, Surface, Worker
from turnmill import (
    Context,
    ContextClient,
    InvalidTurn,
    Policy,
    SilentWaker,
    StoreFull,
)
from turnmill.client.commands import Commands
from turnmill.connection.embedded import EmbeddedRedis

# --- Reads: whole, current, and never torn by a commit in between.


LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512)


def test_a_read_between_two_commits_is_a_prefix_of_the_next(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    before = either.read("s")

    either.push("s", {"role": "user", "content": "later"})
    worker.pipeline.estimate(worker.ref("s"))

    after = either.read("s")
    assert after.version == before.version
    assert after.messages[:-1] == before.messages


def test_a_session_without_turns_is_read_whatever_stands_beside_it(either: Surface) -> None:
    either.open("s", SMALL, "Be kind.")

    read = either.read("s", beside=10_000)

    assert read.messages == [{"role": "system", "content": "Be kind."}]
    assert read.projection is None


def test_a_read_into_which_a_commit_fell_is_seen_to_be_torn(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    commands = Commands.of(namespace, 1024)
    client.open("s", SMALL)
    client.push_many([("s", LONG)] * 12)
    steps = commands.read("s")
    run: Any = redis_client.execute_command
    replies = [run(*step) for step in steps[:2]]

    worker.work("s")

    replies += [run(*step) for step in steps[2:]]
    whole = [run(*step) for step in steps]
    assert commands.is_torn(replies)
    assert not commands.is_torn(whole)


# --- A read that only asks for what is new since the last one returns what a whole read does.


ROOMY = Policy(max_tokens=768)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def said(at: int) -> dict[str, Any]:
    return {"role": "user" if at % 2 else "assistant", "content": f"{at} " + "word " * 60}


@pytest.fixture
def agent(redis_server: EmbeddedRedis, namespace: str) -> Iterator[ReadsTwice]:
    with ReadsTwice(redis_server.url, namespace=namespace, broker=SilentWaker()) as made:
        yield made


Change = Callable[[ContextClient, Worker], Any]


CHANGES: dict[str, Change] = {
    "nothing": lambda *_: None,
    "a push": lambda other, _: other.push("s", said(90)),
    "pushes": lambda other, _: other.push_many([("s", said(at)) for at in range(9)]),
    "a call": lambda other, _: other.push("s", {"role": "assistant", "tool_calls": [CALL]}),
    "a result": lambda other, _: other.push(
        "s", {"role": "tool", "tool_call_id": "c1", "content": "found"}
    ),
    "a count": lambda _, worker: worker.pipeline.estimate(worker.ref("s")),
    "a commit": lambda _, worker: worker.work("s"),
    "a policy": lambda other, _: other.open("s", Policy(max_tokens=600)),
    "another vocabulary": lambda other, _: other.open("s", Policy(encoding="cl100k_base")),
    "a prompt": lambda other, _: other.open("s", system_prompt="Be brief."),
    "clearing": lambda other, _: other.clear("s"),
    "a new life": lambda other, _: (other.forget("s"), other.push("s", said(91))),
}


@pytest.mark.parametrize("turns", [1, 14])
@pytest.mark.parametrize("first", CHANGES.values(), ids=CHANGES)
def test_a_read_after_changes_is_as_whole_as_the_first(
    agent: ReadsTwice, client: ContextClient, worker: Worker, first: Change, turns: int
) -> None:
    agent.open("s", ROOMY, "You help.")
    for at in range(turns):
        agent.push("s", said(at))
        agent.read("s")

    for change in (first, *CHANGES.values()):
        change(client, worker)
        agent.read("s")


def asked(redis_client: redis.Redis) -> int:
    """How often anybody asked for all counts of a session: whole reads do."""
    stats: Any = redis_client.info("commandstats")
    return int(stats["cmdstat_hgetall"]["calls"])


def test_only_the_first_read_asks_for_everything(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.push("s", said(0))
    either.read("s")
    before = asked(redis_client)

    for at in range(1, 9):
        either.push("s", said(at))
        assert len(either.read("s").messages) == at + 1

    assert asked(redis_client) == before


def test_after_redis_went_back_no_read_has_what_was_lost(site: Site) -> None:
    site.agent.open("s", Policy(max_tokens=ROOMY.max_tokens, quality_threshold=0.0))
    site.say("first")
    site.compact()
    site.store.note()
    site.say("lost")
    site.compact()
    site.agent.read("s")

    site.go_back()
    new = site.say("new")
    site.compact()

    found = site.agent.read("s")
    with ContextClient(site.store.url, namespace=SHOP, broker=SilentWaker()) as fresh:
        assert found == fresh.read("s")
    assert found.messages[-1]["content"] == new[-1]


# --- A step pushes and reads in one round trip, and does what the two would do one after the other.


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
    either.open("s", ROOMY, "You help.")
    projected = 0
    for at in range(16):
        if at % 5 == 4:
            change(client, worker)

        found = either.step("s", said(at))

        assert found == read_anew(redis_server, namespace)
        assert found.messages[-1] == said(at)
        projected += found.projection is not None
    assert projected or change is not CHANGES["nothing"]


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
