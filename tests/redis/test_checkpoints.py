"""Checkpoints: made by themselves every few turns or by name, kept to a number, with a lifetime."""

from __future__ import annotations

import pytest
import redis

from tests.redis.conftest import Surface, Worker
from turnmill import InvalidInput, Policy, UnknownSession
from turnmill.contract.names import Seq
from turnmill_worker.ports.values import CountedTurn, Counts
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

SHORT = {"role": "user", "content": "word"}
LONG = {"role": "user", "content": "word " * 60}
EVERY_TWO = Policy(max_tokens=512, checkpoint_interval=2, keep_checkpoints=3, ttl_s=60)


@pytest.fixture
def rollback(redis_client: redis.Redis) -> Rollback:
    return Rollback(RedisStates(redis_client), None, counter_for)


def test_every_interval_of_turns_makes_a_checkpoint(either: Surface) -> None:
    either.open("s", EVERY_TWO)

    made = [either.push("s", SHORT).checkpoint for _ in range(4)]

    assert made == [None, "turn-2-v0", None, "turn-4-v0"]
    assert [(c.id, c.seq, c.automatic) for c in either.checkpoints("s")] == [
        ("turn-2-v0", 2, True),
        ("turn-4-v0", 4, True),
    ]


def test_only_the_newest_are_kept_and_each_kind_for_itself(either: Surface) -> None:
    either.open("s", EVERY_TWO)
    for at in range(5):
        either.checkpoint("s", name=f"mark {at}")

    either.push_many([("s", SHORT)] * 12)

    found = either.checkpoints("s")
    assert [c.seq for c in found if c.automatic] == [8, 10, 12]
    assert [c.id for c in found if not c.automatic] == ["mark 2", "mark 3", "mark 4"]


def test_a_name_used_again_moves(either: Surface) -> None:
    either.open("s", EVERY_TWO)
    either.checkpoint("s", "first", name="mark")
    either.push("s", SHORT)

    either.checkpoint("s", "second", name="mark")

    assert [(c.id, c.seq, c.message) for c in either.checkpoints("s")] == [("mark", 1, "second")]


def test_checkpoints_without_a_name_have_ids_of_their_own(either: Surface) -> None:
    either.push("s", SHORT)

    ids = {either.checkpoint("s") for _ in range(3)}

    assert len(ids) == 3


def test_no_checkpoint_is_made_where_none_is_kept(either: Surface) -> None:
    either.open("s", Policy(keep_checkpoints=0, checkpoint_interval=1))

    assert either.push("s", SHORT).checkpoint is None
    assert either.checkpoint("s") is None
    assert either.checkpoints("s") == []


def test_an_unknown_session_has_no_checkpoints(either: Surface) -> None:
    with pytest.raises(UnknownSession):
        either.checkpoint("s")
    with pytest.raises(UnknownSession):
        either.checkpoints("s")


def test_names_and_messages_are_bounded(either: Surface) -> None:
    with pytest.raises(InvalidInput, match=r"message: .* at most 200"):
        either.checkpoint("s", "x" * 201)
    with pytest.raises(InvalidInput, match=r"name: .* at most 200"):
        either.checkpoint("s", name="x" * 201)


def test_checkpoints_live_as_long_as_their_session(
    either: Surface, redis_client: redis.Redis, worker: Worker
) -> None:
    either.open("s", EVERY_TWO)
    either.push_many([("s", SHORT)] * 2)
    either.checkpoint("s")

    keys = worker.keys("s")

    assert 0 < int(redis_client.pttl(keys.checkpoints)) <= 60_000
    assert 0 < int(redis_client.pttl(keys.named)) <= 60_000


def test_the_newest_checkpoint_is_used_up_and_a_named_one_stays(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(checkpoint_interval=0))
    either.checkpoint("s", name="one")
    either.push("s", SHORT)
    either.checkpoint("s", name="two")

    assert rollback.rollback(worker.ref("s"), None).restored == "two"
    assert rollback.rollback(worker.ref("s"), None).restored == "one"
    assert either.checkpoints("s") == []
    either.checkpoint("s", name="three")
    rollback.rollback(worker.ref("s"), "three")
    assert [c.id for c in either.checkpoints("s")] == ["three"]


def test_of_two_checkpoints_with_one_stream_id_only_the_restored_one_is_used_up(
    either: Surface, redis_client: redis.Redis, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(checkpoint_interval=0))
    either.push("s", SHORT)
    keys = worker.keys("s")
    for key, name in ((keys.checkpoints, "automatic"), (keys.named, "named")):
        fields = {"id": name, "seq": "1", "version": "0", "message": "", "context": ""}
        redis_client.xadd(key, dict(fields.items()), id="1700000000000-0")

    used = rollback.rollback(worker.ref("s"), None).restored

    assert {c.id for c in either.checkpoints("s")} == {"automatic", "named"} - {used}


def test_a_rollback_to_before_the_first_turn_leaves_keys_with_a_lifetime(
    either: Surface, redis_client: redis.Redis, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(ttl_s=60))
    either.checkpoint("s", name="empty")
    either.push_many([("s", SHORT)] * 3)

    rollback.rollback(worker.ref("s"), "empty")
    either.push("s", SHORT)

    left = {key: int(redis_client.pttl(key)) for key in worker.keys("s").owned}
    assert [key for key, each in left.items() if each == -1] == []
    assert either.info("s").last_seq == 4
    assert either.read("s").messages == [SHORT]


def test_a_late_count_of_nothing_does_not_bring_back_calls_that_were_rolled_back(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    either.open("s", Policy(checkpoint_interval=0))
    either.checkpoint("s", name="empty")
    either.push("s", {"role": "assistant", "content": None, "tool_calls": [call]})
    ref = worker.ref("s")
    worker.pipeline.estimate(ref)
    seen = worker.sessions.uncounted(ref, most=10)
    assert seen is not None
    assert seen.open_calls == ("call_1",)

    rollback.rollback(ref, "empty")
    worker.sessions.record_counts(
        ref,
        seen,
        Counts(
            basis=seen.basis,
            system_tokens=0,
            open_calls=seen.open_calls,
            due=False,
            turns=(),
        ),
    )

    again = worker.sessions.uncounted(ref, most=10)
    assert again is not None
    assert again.open_calls == ()


def test_a_count_under_way_is_refused_after_a_rollback(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(checkpoint_interval=0))
    either.checkpoint("s", name="empty")
    either.push("s", LONG)
    ref = worker.ref("s")
    seen = worker.sessions.uncounted(ref, most=10)
    assert seen is not None

    rollback.rollback(ref, "empty")
    recorded = worker.sessions.record_counts(
        ref,
        seen,
        Counts(
            basis="o200k_base/1",
            system_tokens=0,
            open_calls=(),
            due=False,
            turns=[CountedTurn(Seq(1), 61)],
        ),
    )

    assert recorded.stale
    assert either.info("s").usage.tail == 0


def test_turns_first_counted_by_a_rollback_are_part_of_the_history(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(checkpoint_interval=0))
    either.push("s", LONG)
    either.checkpoint("s", name="here")

    rollback.rollback(worker.ref("s"), "here")

    info = either.info("s")
    assert info.history_tokens == info.usage.tail > 0


def test_a_managed_summary_looks_back_at_no_turn_that_was_rolled_back(
    either: Surface, worker: Worker, rollback: Rollback
) -> None:
    either.open("s", Policy(max_tokens=512, checkpoint_interval=0))
    either.push("s", LONG)
    either.checkpoint("s", name="here")
    either.push_many([("s", LONG)] * 11)
    assert worker.work("s") == "committed"
    ref = worker.ref("s")
    epoch = RedisStates(worker.sessions._redis).past(ref)
    assert epoch is not None

    rollback.rollback(ref, "here")

    covered = worker.sessions.covered(ref, epoch.epoch, first_seq=1, last_seq=12)
    assert [turn.seq for turn in covered] == [1]
