"""Clearing sets a conversation aside and keeps its session: prompt, policy and positions."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.redis.conftest import Surface, Worker
from turnmill import Policy, UnknownSession
from turnmill_worker.ports.values import Mark
from turnmill_worker.store.outgoing import RedisOutgoing

LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=512, ttl_s=60, checkpoint_interval=2)


@pytest.fixture
def full(either: Surface, worker: Worker) -> str:
    """A session with covered turns, a tail and checkpoints."""
    either.open("s", SMALL, "You are terse.")
    either.push_many([("s", LONG)] * 12)
    assert worker.work("s") == "committed"
    either.push("s", LONG)
    return "s"


def test_only_the_system_prompt_is_left_of_a_cleared_conversation(
    either: Surface, full: str
) -> None:
    in_log = either.info(full).turns_in_log

    gone = either.clear(full)

    assert gone == in_log
    assert either.read(full).messages == [{"role": "system", "content": "You are terse."}]
    assert either.checkpoints(full) == []
    assert either.info(full).policy == SMALL


def test_positions_and_versions_go_on(either: Surface, full: str) -> None:
    version = either.info(full).version

    either.clear(full)

    assert either.push(full, LONG).seq == 14
    assert either.read(full).version == version + 1


def test_the_numbers_of_a_cleared_session_are_those_of_an_empty_one(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str
) -> None:
    either.push(full, showing(png()))
    worker.work(full)

    either.clear(full)
    worker.pipeline.estimate(worker.ref(full))

    info = either.info(full)
    assert (info.images, info.interactions, info.history_tokens) == (0, 0, 0)
    assert (info.usage.tail, info.usage.summary, info.usage.pending) == (0, 0, 0)
    assert info.quality is None
    assert redis_client.hget(worker.keys(full).meta, "images_before") == b"0"


def test_cleared_turns_wait_for_the_archive_marked(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str
) -> None:
    watermark = either.info(full).watermark

    either.clear(full)

    ref = worker.ref(full)
    drain = RedisOutgoing(redis_client).next_drains([ref], turns=100, size=2**20)[ref]
    turns = [turn for step in drain.steps for turn in getattr(step, "turns", ())]
    assert [turn.seq for turn in turns] == list(range(1, 14))
    assert [turn.state for turn in turns[watermark:]] == ["cleared"] * (13 - watermark)
    marks = [step for step in drain.steps if isinstance(step, Mark)]
    assert [(m.after_seq, m.through_seq, m.state) for m in marks] == [(0, 13, "cleared")]


def test_clearing_is_recorded_like_a_compaction(
    either: Surface, worker: Worker, redis_client: redis.Redis, full: str
) -> None:
    before = either.info(full)

    either.clear(full)

    entries: Any = redis_client.xrange(worker.keys(full).compactions)
    record = json.loads(entries[-1][1][b"record"])
    assert (record["strategy"], record["version"]) == ("clear", before.version + 1)
    assert record["turns"] == before.turns_in_log
    assert record["tokens_after"] < record["tokens_before"]


def test_a_compaction_under_way_is_refused(either: Surface, worker: Worker, full: str) -> None:
    either.push_many([(full, LONG)] * 12)
    ref = worker.ref(full)
    worker.pipeline.estimate(ref)
    snapshot = worker.sessions.snapshot(ref)
    either.clear(full)
    either.push(full, LONG)
    assert snapshot is not None

    now = worker.sessions.snapshot(ref)

    assert now is not None
    assert now.version == snapshot.version + 1
    assert worker.work(full) == "skipped"


def test_every_key_of_a_cleared_session_has_a_lifetime(
    either: Surface, redis_client: redis.Redis, worker: Worker, full: str
) -> None:
    either.clear(full)
    either.push_many([(full, LONG)] * 2)
    either.checkpoint(full)

    left = {key: int(redis_client.pttl(key)) for key in worker.keys(full).owned}
    assert [key for key, each in left.items() if each == -1] == []


def test_clearing_twice_clears_nothing_more(either: Surface, full: str) -> None:
    either.clear(full)

    assert either.clear(full) == 0


def test_an_unknown_session_cannot_be_cleared(either: Surface) -> None:
    with pytest.raises(UnknownSession):
        either.clear("nobody")
