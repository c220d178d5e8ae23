"""A read that only asks for what is new since the last one returns what a whole read does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.read_twice import ReadsTwice
from tests.redis.conftest import SHOP, Site, Surface, Worker
from tests.redis.erasing_scene import WORDS, scenes
from turnmill import ContextClient, Policy, SilentWaker, UnknownSession
from turnmill.client.caches import LatelyRead
from turnmill.connection.embedded import EmbeddedRedis

SMALL = Policy(max_tokens=768)
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


@pytest.mark.parametrize("turns", [1, 5, 14])
@pytest.mark.parametrize("first", CHANGES.values(), ids=CHANGES)
def test_a_read_after_changes_is_as_whole_as_the_first(
    agent: ReadsTwice, client: ContextClient, worker: Worker, first: Change, turns: int
) -> None:
    agent.open("s", SMALL, "You help.")
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


def test_while_a_summary_is_late_a_read_asks_only_for_what_is_new_and_was_counted(
    either: Surface, worker: Worker, redis_client: redis.Redis
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", said(at)) for at in range(14)])
    worker.pipeline.estimate(worker.ref("s"))
    assert either.read("s").projection
    before = asked(redis_client)

    for at in range(14, 30):
        either.push("s", said(at))
        if at % 3:  # before the read or behind it
            worker.pipeline.estimate(worker.ref("s"))
        assert either.read("s").projection

    assert asked(redis_client) == before


def test_what_a_caller_does_with_a_context_is_not_in_the_next(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.push("s", {"messages": [said(0)], "pinned": True})
    either.push_many([("s", said(at)) for at in range(12)])
    worker.work("s")
    either.push("s", {"role": "assistant", "tool_calls": [CALL]})
    whole = either.read("s")

    changed = either.read("s")
    for message in changed.messages:
        message["content"] = "changed"
        for call in message.get("tool_calls") or ():
            call["function"]["name"] = "changed"

    assert either.read("s") == whole


def test_a_forgotten_session_is_not_remembered_here(either: Surface) -> None:
    either.push("s", said(0))
    either.read("s")

    either.forget("s")

    assert either.client._lately.take("s") is None
    with pytest.raises(UnknownSession):
        either.read("s")


def test_after_redis_went_back_no_read_has_what_was_lost(site: Site) -> None:
    site.agent.open("s", Policy(max_tokens=SMALL.max_tokens, quality_threshold=0.0))
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


def test_what_another_client_erased_is_in_no_later_read(
    client: ContextClient, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with scenes(client, redis_client, tmp_path) as make:
        now = make()
        newest = now.say()
        assert WORDS in str(now.client.read("s").messages)

        now.erase(21, newest).finish()

        assert WORDS not in str(now.client.read("s").messages)


def test_sessions_read_longest_ago_are_forgotten_when_memory_is_full(
    client: ContextClient,
) -> None:
    lately = LatelyRead(most_bytes=3_000)
    for name in ("a", "b", "c", "d"):
        client.push(name, said(0))
        client.read(name)
        known = client._lately.take(name)
        assert known is not None
        lately.keep(known)

    assert [lately.take(name) is None for name in ("a", "b", "c", "d")] == [
        True,
        False,
        False,
        False,
    ]
