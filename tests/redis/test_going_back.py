"""Redis returns to an earlier state: what was planned before is stale, and agents hear of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.redis.conftest import Site
from tests.redis.test_counting_and_committing import commit_from
from turnmill import Policy, Turn
from turnmill.contract.errors import NoCheckpoint
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.ports.values import CountedTurn, Counts, Restored, SessionInRedis, SessionRef
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.tokens import counter_for


def test_a_commit_planned_before_redis_went_back_is_stale(site: Site) -> None:
    site.say("first")
    site.store.note()
    site.say("lost")
    site.worker.pipeline.estimate(site.worker.ref("s"))
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(site.worker.ref("s")))

    site.go_back()
    site.say("new")
    site.worker.pipeline.estimate(site.worker.ref("s"))
    committed = site.worker.sessions.commit(*args, **options)

    assert committed.version == 0


def test_a_commit_is_kept_when_the_same_turns_were_pushed_again(site: Site) -> None:
    site.say("first")
    site.store.note()
    said = [{"role": "user", "content": f"{at} " + "word " * 60} for at in range(8)]
    turns = [Turn(messages=[each], turn_id=f"again-{at}") for at, each in enumerate(said)]
    for turn in turns:
        site.agent.push("s", turn)
    site.worker.pipeline.estimate(site.worker.ref("s"))
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(site.worker.ref("s")))

    site.go_back()
    for turn in turns:
        site.agent.push("s", turn)
    site.worker.pipeline.estimate(site.worker.ref("s"))
    committed = RedisSessions(site.redis).commit(*args, **options)

    assert committed.version == 1


def test_a_commit_is_stale_where_its_turns_are_back_but_not_their_counts(site: Site) -> None:
    site.say("first")
    site.store.note()
    turns = [
        Turn(messages=[{"role": "user", "content": "word " * 60}], turn_id=f"{at}")
        for at in range(8)
    ]
    for turn in turns:
        site.agent.push("s", turn)
    ref = site.worker.ref("s")
    site.worker.pipeline.estimate(ref)
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(ref))

    site.go_back()
    for turn in turns:
        site.agent.push("s", turn)
    committed = site.worker.sessions.commit(*args, **options)
    site.worker.pipeline.estimate(ref)

    assert committed.version == 0
    info = site.agent.info("s")
    assert info.counted_seq == info.last_seq


def test_a_commit_planned_from_a_context_that_redis_lost_is_stale(site: Site) -> None:
    """Its version is given out again, and the turns behind it are the same: the commit is not."""
    said = {"role": "user", "content": "word " * 60}
    turns = [Turn(messages=[said], turn_id=f"again-{at}") for at in range(12)]

    def compact_and_push_on() -> None:
        site.compact()
        for turn in turns:
            site.agent.push("s", turn)
        site.worker.pipeline.estimate(site.worker.ref("s"))

    site.say("first")
    site.store.note()
    compact_and_push_on()
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(site.worker.ref("s")))

    site.go_back()
    compact_and_push_on()
    committed = RedisSessions(site.redis).commit(*args, **options)

    assert committed.version == 0


class _Stopped(RedisStates):
    """What a worker sees of earlier states that is stopped once, before it restores one."""

    meanwhile: Callable[[], object] | None = None

    def restore(self, ref: SessionRef, past: SessionInRedis, state: Restored) -> tuple[int, int]:
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return super().restore(ref, past, state)


def test_a_rollback_planned_before_redis_went_back_brings_no_lost_turn(site: Site) -> None:
    first = site.say("first")
    site.store.note()
    site.say("lost")
    site.agent.checkpoint("s", name="here")
    site.say("more")
    new: list[str] = []

    def meanwhile() -> None:
        site.go_back()
        new.extend(site.say("new", 24))

    states = _Stopped(site.redis)
    states.meanwhile = meanwhile
    with pytest.raises(NoCheckpoint):
        Rollback(states, site.archive, counter_for).rollback(site.worker.ref("s"), "here")

    assert site.told() == first + new


def test_a_lease_given_up_after_redis_went_back_leaves_other_turns_due(site: Site) -> None:
    """Its worker had found nothing to do, by turns that are lost; as many others are counted."""
    ref = site.worker.ref("s")
    with site.worker.sessions.lease(ref) as lease:
        assert lease is not None
        site.store.note()
        site.say("lost")
        site.worker.pipeline.estimate(ref)
        snapshot = site.worker.sessions.snapshot(ref)
        assert snapshot is not None

        site.go_back()
        site.say("new")
        site.worker.pipeline.estimate(ref)
        is_due = lease.release(snapshot)

    assert is_due
    assert site.agent.info("s").due_in_s is not None


def test_a_session_covered_further_than_it_was_counted_is_counted_again(site: Site) -> None:
    site.say("first", turns=20)
    ref = site.worker.ref("s")
    site.worker.pipeline.estimate(ref)
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(ref))
    assert site.worker.sessions.commit(*args, **options).version == 1
    keys = session_keys(Namespace(site.agent.namespace), SessionId("s"))
    site.redis.hset(
        keys.meta, "counted_seq", 1
    )  # as an earlier version left it where Redis went back

    site.say("next")
    site.worker.pipeline.estimate(ref)

    info = site.agent.info("s")
    assert info.counted_seq == info.last_seq


def test_counts_of_lost_turns_are_not_given_to_others(site: Site) -> None:
    site.say("first", turns=2)
    site.worker.pipeline.estimate(site.worker.ref("s"))
    site.store.note()
    site.say("lost", turns=3)
    seen = site.worker.sessions.uncounted(site.worker.ref("s"), most=10)
    assert seen is not None

    site.go_back()
    for _ in range(3):
        site.agent.push("s", {"role": "user", "content": "short"})
    counts = Counts(
        basis=seen.basis,
        system_tokens=0,
        open_calls=(),
        turns=[CountedTurn(turn.seq, 70) for turn in seen.turns],
        due=False,
    )
    recorded = site.worker.sessions.record_counts(site.worker.ref("s"), seen, counts)

    assert recorded.stale


def test_a_recount_of_lost_turns_is_not_given_to_others(site: Site) -> None:
    ref, sessions = site.worker.ref("s"), site.worker.sessions
    site.store.note()
    site.say("lost", turns=3)
    site.worker.pipeline.estimate(ref)
    seen, snapshot = sessions.uncounted(ref, most=10), sessions.snapshot(ref)
    assert seen is not None
    assert snapshot is not None

    site.go_back()
    site.say("new", turns=3)
    site.worker.pipeline.estimate(ref)
    again = [CountedTurn(turn.seq, 70) for turn in snapshot.turns]
    none = {"system_tokens": 0, "tools_tokens": 0, "context_tokens": 0}

    assert not sessions.recount(ref, seen, snapshot, basis="another", turns=again, **none)


def test_a_policy_that_redis_lost_is_not_taken_for_the_one_that_followed(site: Site) -> None:
    site.say("first")
    site.store.note()
    site.agent.open("s", Policy(max_tokens=600))
    site.worker.pipeline.estimate(site.worker.ref("s"))
    args, options = commit_from(site.worker, site.worker.sessions.snapshot(site.worker.ref("s")))

    site.go_back()
    site.agent.open("s", Policy(max_tokens=540))
    site.worker.pipeline.estimate(site.worker.ref("s"))
    committed = site.worker.sessions.commit(*args, **options)

    assert committed.version == 0


def test_an_agent_is_told_once_which_of_its_turns_are_gone(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    agent = site.agent
    site.say("first", turns=3)
    site.store.note()
    site.say("lost", turns=2)

    site.go_back()
    for _ in range(3):
        agent.push("s", {"role": "user", "content": "new"})

    said = [record.getMessage() for record in caplog.records if record.name == "turnmill"]
    gone = "turns 4 to 5 of session 's' that were acknowledged are gone"
    assert said == [f"Redis returned to an earlier state: {gone}"]
