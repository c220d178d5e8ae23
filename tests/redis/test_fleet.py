"""The numbers of all workers together stand for every session, at a cost that is bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import redis

from turnmill import Policy
from turnmill.contract.keys import FLEET, RESTING, session_keys, shard_of
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.store import fleet

NAMES = [SessionId(f"s{at}") for at in range(200)]
FEW, MANY = 100, Policy().limits(0, 1.0).soft + 1

Fill = Callable[[Sequence[Namespace], SessionId, int], None]


@pytest.fixture
def fill(redis_client: redis.Redis) -> Fill:
    """Gives a session of each namespace, all of them idle, so many tokens."""

    def filled(names: Sequence[Namespace], session: SessionId, tokens: int) -> None:
        with redis_client.pipeline(transaction=False) as pipe:
            pipe.sadd(RESTING, *names)
            for name in names:
                keys = session_keys(name, session)
                pipe.zadd(keys.index, {session: 1})
                pipe.hset(keys.meta, mapping={"tail_tokens": tokens})
            pipe.execute()

    return filled


def over_soft(client: redis.Redis) -> float:
    client.delete(FLEET)
    seen = fleet.RedisFleet(client, lambda _: 0, (), archive=True).look()
    return next(value for _, labels, value in seen if labels.get("state") == "over_soft")


def test_any_session_may_stand_for_those_that_are_not_looked_at(
    redis_client: redis.Redis, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [Namespace(f"n{at}") for at in range(50)]
    monkeypatch.setattr(fleet, "MOST_LOOKED_AT", 64)  # of most namespaces one
    fill(names, min(NAMES, key=shard_of), FEW)
    fill(names, max(NAMES, key=shard_of), MANY)

    looks = [over_soft(redis_client) for _ in range(20)]

    assert 0.5 * 50 < sum(looks) / 20 < 1.5 * 50


def test_of_many_idle_namespaces_a_look_reads_some_again_and_tells_of_all(
    redis_client: redis.Redis, fill: Fill
) -> None:
    names = [Namespace(f"n{at}") for at in range(fleet.MOST_IDLE + 20)]
    fill(names, NAMES[0], MANY)
    before = over_soft(redis_client)
    fill(names, NAMES[0], FEW)

    assert before == len(names)
    assert over_soft(redis_client) == 20
    assert over_soft(redis_client) == 0
