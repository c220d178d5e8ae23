"""Reads: whole, current, and never torn by a commit in between."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import ContextClient, Policy, UnknownSession
from turnmill.client.commands import Commands

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512)


def test_a_read_has_what_was_pushed_at_once(either: Surface) -> None:
    either.push("s", {"role": "user", "content": "one"})
    either.push("s", {"role": "assistant", "content": "two"})

    read = either.read("s")

    assert [message["content"] for message in read.messages] == ["one", "two"]
    assert (read.last_seq, read.version, read.projection) == (2, 0, None)


def test_an_unknown_session_cannot_be_read(either: Surface) -> None:
    with pytest.raises(UnknownSession, match="nobody"):
        either.read("nobody")


def test_a_read_is_exact_once_a_worker_has_counted(either: Surface, worker: Worker) -> None:
    either.push("s", LONG)
    before = either.read("s")

    worker.pipeline.estimate(worker.ref("s"))

    after = either.read("s")
    assert (before.exact, after.exact) == (False, True)
    assert after.tokens <= before.tokens


def test_a_read_after_a_commit_has_the_summary_and_every_later_turn(
    either: Surface, worker: Worker
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", LONG)] * 12)
    worker.work("s")
    either.push("s", {"role": "user", "content": "later"})

    read = either.read("s")

    assert read.version == 1
    assert "[Summary of the conversation" in read.messages[0]["content"]
    assert len(read.messages) == 1 + read.last_seq - read.watermark
    assert read.messages[-1]["content"] == "later"


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


def test_over_the_limit_a_read_is_cut_and_says_so(either: Surface) -> None:
    either.open("s", SMALL)
    either.push_many([("s", LONG)] * 12)

    read = either.read("s")

    assert read.projection is not None
    assert read.tokens <= SMALL.hard_limit
    assert read.messages[-1] == LONG
    # Behind what the user said in the turns that are left out.
    assert f"{read.projection.turns} turns" in read.messages[1]["content"]


def test_a_field_called_pinned_in_metadata_does_not_pin_a_turn(
    client: ContextClient, worker: Worker
) -> None:
    client.push("s", {"messages": [LONG], "metadata": {"pinned": True}})
    client.push("s", {"messages": [LONG], "pinned": True})
    worker.pipeline.estimate(worker.ref("s"))

    snapshot = worker.sessions.snapshot(worker.ref("s"))

    assert snapshot is not None
    assert [turn.pinned for turn in snapshot.turns] == [False, True]
