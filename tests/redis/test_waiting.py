"""Who waits for a summary: namespaces take turns, and the one with the least room comes first."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
import redis

from tests.processes import wait_until
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.keys import WAITING
from turnmill.contract.names import Namespace, SessionId
from turnmill.embedded_redis import EmbeddedRedis
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.summaries import RedisWaiting


@pytest.fixture
def server(redis_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A database of its own: these keys are of no namespace."""
    with redis.Redis.from_url(redis_server.url, db=9) as client:
        client.flushdb()
        yield client


@pytest.fixture
def waiting(server: redis.Redis) -> RedisWaiting:
    return RedisWaiting(server)


def ref(namespace: str, session: object) -> SessionRef:
    return SessionRef(Namespace(namespace), SessionId(str(session)))


def add_all(waiting: RedisWaiting, namespace: str, sessions: Iterable[object]) -> None:
    for session in sessions:
        waiting.add(ref(namespace, session), room=0.1)


def taken(waiting: RedisWaiting, count: int) -> list[str]:
    """The namespaces of the next so many."""
    found = [waiting.take() for _ in range(count)]
    return [one.namespace for one in found if one]


def test_nobody_waits_at_first(waiting: RedisWaiting) -> None:
    assert waiting.take() is None


def test_the_one_with_the_least_room_comes_first(waiting: RedisWaiting) -> None:
    for session, room in (("a", 0.15), ("b", -0.2), ("c", 0.01)):
        waiting.add(ref("ns", session), room=room)

    assert [waiting.take() for _ in range(4)] == [ref("ns", s) for s in "bca"] + [None]


def test_who_waits_already_says_only_how_much_room_is_left_now(waiting: RedisWaiting) -> None:
    waiting.add(ref("ns", "a"), room=0.15)
    waiting.add(ref("ns", "b"), room=0.1)

    waiting.add(ref("ns", "a"), room=0.01)

    assert [waiting.take() for _ in range(3)] == [ref("ns", "a"), ref("ns", "b"), None]


def test_who_has_waited_comes_before_all_that_come_later(server: redis.Redis) -> None:
    waiting = RedisWaiting(server, ageing_s=0.02)
    waiting.add(ref("ns", "patient"), room=1.0)
    newcomers = itertools.count()

    def taken_at_last() -> bool:
        """With an endless row of sessions that have no room at all."""
        waiting.add(ref("ns", next(newcomers)), room=-5.0)
        waiting.add(ref("ns", "patient"), room=1.0)  # as the sweep has it do, every few seconds
        return waiting.take() == ref("ns", "patient")

    wait_until(taken_at_last, within_s=10)


def test_who_had_a_turn_begins_to_wait_anew(server: redis.Redis, waiting: RedisWaiting) -> None:
    server.hset(f"{WAITING.since}ns", "roomy", 0)  # since 1970
    add_all(waiting, "ns", ["other"])
    waiting.add(ref("ns", "roomy"), room=0.2)
    assert waiting.take() == ref("ns", "roomy")

    waiting.add(ref("ns", "roomy"), room=0.2)

    assert waiting.take() == ref("ns", "other")


def test_namespaces_take_turns_however_many_sessions_they_have(waiting: RedisWaiting) -> None:
    add_all(waiting, "noisy", range(1_000))
    add_all(waiting, "quiet", range(3))

    assert Counter(taken(waiting, 6)) == {"noisy": 3, "quiet": 3}


def test_who_comes_late_waits_for_one_turn_of_each_other(waiting: RedisWaiting) -> None:
    for name in ("a", "b", "c"):
        add_all(waiting, name, range(100))
    taken(waiting, 150)

    add_all(waiting, "late", [1])

    assert "late" in taken(waiting, 4)


def test_nobody_saves_turns_up_by_staying_away(waiting: RedisWaiting) -> None:
    add_all(waiting, "busy", range(100))
    taken(waiting, 50)

    add_all(waiting, "rested", range(100))

    assert Counter(taken(waiting, 20)) == {"busy": 10, "rested": 10}


@pytest.mark.parametrize("name", ["a-first", "z-last"])
def test_coming_back_at_once_with_one_session_each_gives_no_second_turn(
    waiting: RedisWaiting, name: str
) -> None:
    add_all(waiting, "many", range(100))
    found: Counter[str] = Counter()
    for at in range(40):
        add_all(waiting, name, [at])
        found.update(taken(waiting, 1))

    assert abs(found["many"] - found[name]) <= 1


def test_entries_whose_sessions_are_gone_are_passed_over(
    waiting: RedisWaiting, server: redis.Redis
) -> None:
    add_all(waiting, "gone", range(3))
    add_all(waiting, "here", ["s"])
    server.delete(f"{WAITING.waiting}gone")

    assert waiting.take() == ref("here", "s")


def test_nothing_is_left_when_nobody_waits_and_all_expires(
    waiting: RedisWaiting, server: redis.Redis
) -> None:
    add_all(waiting, "a", range(3))
    add_all(waiting, "b", range(2))
    taken(waiting, 3)

    assert all(server.pttl(key) > 0 for key in server.keys("*"))
    taken(waiting, 3)
    assert server.keys("*") == []


def test_a_session_looked_at_while_it_waits_gets_one_message_unless_messages_were_lost(
    client: ContextClient, worker: Worker
) -> None:
    sessions = [worker.ref(name) for name in ("a", "b")]
    for each in sessions:
        client.open(each.session, Policy(max_tokens=512))
        client.push_many([(each.session, {"role": "user", "content": "word " * 60})] * 12)
        worker.pipeline.estimate(each)

    def looked_at() -> list[str]:
        """The sessions whose messages wait after some looks, as of a sweep while nobody writes."""
        for each in sessions * 3:
            assert worker.pipeline.compact(each).outcome == "needs-summary"
        return [each.session for task, each in worker.hints.sent if task == jobs.SUMMARIZE]

    assert looked_at() == ["a", "b"]
    worker.hints.sent.clear()
    assert looked_at() == ["a", "b"]
