"""Pushes are atomic, counted once and in order; a step is a push and its read in one trip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import (
    ContextClient,
    InvalidInput,
    Policy,
)
from turnmill.push.push_calls import DEDUPE_WINDOW, RETRY_WINDOW

# --- Pushes: one atomic call of constant cost; the same id is the same turn.


HI = {"role": "user", "content": "hi"}


def calls(redis_client: redis.Redis) -> dict[str, int]:
    """How often each Redis command ran so far, but for those of looking."""
    stats: Any = redis_client.info("commandstats")
    return {name: row["calls"] for name, row in stats.items() if "info" not in name}


def cost_of_a_push(client: ContextClient, redis_client: redis.Redis, session: str) -> int:
    before = calls(redis_client)
    client.push(session, HI)
    return sum(calls(redis_client).values()) - sum(before.values())


def test_a_push_costs_as_many_commands_after_three_thousand_turns_as_after_ten(
    client: ContextClient, redis_client: redis.Redis
) -> None:
    client.push_many([("short", HI)] * 10)
    client.push_many([("long", HI)] * 3_000)

    short, long = (cost_of_a_push(client, redis_client, name) for name in ("short", "long"))

    assert long - short <= 1  # the dedupe window is full: its oldest id leaves


def test_the_same_turn_id_gets_the_same_seq_and_stores_nothing(either: Surface) -> None:
    either.push("s", HI)
    first = either.push("s", HI, turn_id="t")

    again = either.push("s", {"role": "user", "content": "other"}, turn_id="t")

    assert (again.seq, again.duplicate, first.duplicate) == (first.seq, True, False)
    assert either.info("s").turns_in_log == 2


def test_a_turn_id_is_known_after_its_turn_was_compacted(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push("s", HI, turn_id="t")
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    worker.work("s")

    again = either.push("s", HI, turn_id="t")

    assert (again.seq, again.duplicate) == (1, True)
    assert either.info("s").watermark > 1


def test_the_dedupe_window_is_bounded(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push("named", HI, turn_id="t")
    client.push_many([("named", HI)] * DEDUPE_WINDOW)
    client.push_many([("s", HI)] * (RETRY_WINDOW + 20))

    assert redis_client.zcard(worker.keys("named").ids) == DEDUPE_WINDOW
    assert redis_client.zcard(worker.keys("s").ids) == RETRY_WINDOW


def test_push_many_keeps_the_order_within_each_session(either: Surface) -> None:
    pairs = [(f"s{at % 3}", {"role": "user", "content": str(at)}) for at in range(1200)]
    either.open("s1", Policy(max_tokens=100_000))

    pushed = either.push_many(pairs)

    assert [each.seq for each in pushed] == [at // 3 + 1 for at in range(1200)]
    contents = [message["content"] for message in either.read("s1").messages]
    assert contents == [str(at) for at in range(1, 1200, 3)]


def test_one_bad_turn_of_many_stores_none(either: Surface) -> None:
    try:
        either.push_many([("s", HI), ("s", {"role": "nobody", "content": "hi"})])
    except ValueError as error:
        message = str(error)

    assert message.startswith("turns[1]: ")
    assert either.sessions() == []


def test_pushing_on_after_scripts_were_flushed_works(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.push("s", HI)
    redis_client.script_flush()

    pushed = either.push("s", HI)

    assert pushed.seq == 2


# --- What can be seen to be wrong is refused before a worker is asked, and nobody waits for it.


Call = Callable[[Surface], Any]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.rollback("s", 1.5), "to: must be a checkpoint's id, a version"),
        (lambda client: client.rollback("s", True), "to: must be .*, got bool"),  # noqa: FBT003
        (
            lambda client: client.summarize("s", template=5),
            "template name: got a value of type int",
        ),
        (lambda client: client.summarize("s", template="../x"), "template name: got 4 characters"),
        (lambda client: client.summarize("s", template=None, wait=False), "template name: got"),
        (lambda client: client.ground("what?", "5"), r"k of type str must be in 1\.\.100"),
        (lambda client: client.ground("what?", 2.5), r"k of type float must be in 1\.\.100"),
        (lambda client: client.remember("x" * 100_001), "100001 characters; a memory has at most"),
    ],
    ids=["half", "bool", "number", "path", "nothing", "text", "half k", "long"],
)
def test_what_no_worker_could_answer_is_refused_at_once(
    either: Surface, call: Call, said: str
) -> None:
    either.push("s", HI)

    with pytest.raises(InvalidInput, match=said):
        call(either)
