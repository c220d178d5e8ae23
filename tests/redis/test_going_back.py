"""Redis returns to an earlier state: the loss is told, and nothing planned for it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.going_back import WAYS, GoingBack, Restored
from tests.redis.conftest import Site, commit_from
from turnmill import Turn
from turnmill.contract.errors import NoCheckpoint
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.protocols import ArchiveDiverged
from turnmill_worker.ports.values import CountedTurn, Counts, SessionInRedis, SessionRef
from turnmill_worker.ports.values import Restored as RestoredState
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.sweep_lists import RedisSweepLists
from turnmill_worker.tokens import counter_for

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


# --- Redis returns to an earlier state: what was planned before is stale, and agents hear of it.


@every_way
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

    def restore(
        self, ref: SessionRef, past: SessionInRedis, state: RestoredState
    ) -> tuple[int, int]:
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return super().restore(ref, past, state)


@every_way
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


@every_way
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


# --- Redis returns to an earlier state than the archive: nothing is missing or silently replaced.


def _stored(site: Site, words: str) -> list[str]:
    """Turns that were pushed, compacted and archived; their texts."""
    said = site.say(words)
    site.compact()
    site.store_away()
    return said


@every_way
def test_no_turn_pushed_after_redis_went_back_is_missing(site: Site) -> None:
    first = site.say("first")
    site.compact()
    site.store.note()
    lost = _stored(site, "lost")

    site.go_back()
    new = _stored(site, "new")

    assert site.told() == first + new
    kept = {turn.seq for turn in site.archive.turns(site.worker.ref("s"))}
    assert site.lost() == [(max(kept) - 12, 13, max(kept))]
    texts = site.remembered()
    assert any(text in new for text in texts)
    assert not any(text in lost for text in texts)


def test_a_drain_of_what_redis_lost_trims_nothing_and_replaces_nothing(site: Site) -> None:
    """A worker was stopped before it stored, and goes on when another has stored the new turns."""
    first = site.say("first")
    site.store.note()
    site.say("lost")
    site.compact()
    held = RedisOutgoing(site.redis).next_drains([site.worker.ref("s")], turns=800, size=10**7)
    # Of two servers the lost one's clock was ahead: its entries' ids are above all that follow.
    ahead = f"{2**45}-0"
    held = {
        ref: replace(each, turns_through=ahead, commits_through=ahead) for ref, each in held.items()
    }

    site.go_back()
    new = _stored(site, "new")
    with pytest.raises(ArchiveDiverged):
        site.archive.drain(held)
    site.say("more")
    site.compact()
    waiting = site.redis.xlen(site.worker.keys("s").covered)
    RedisOutgoing(site.redis).trim(held)

    assert site.redis.xlen(site.worker.keys("s").covered) == waiting
    assert site.told()[:24] == first + new
    assert site.lost() == []


def test_a_drain_of_what_redis_lost_that_came_first_is_kept_apart(site: Site) -> None:
    """A worker was stopped before it stored, and goes on before any new turn is archived."""
    first = site.say("first")
    site.store.note()
    site.say("lost")
    site.compact()
    held = RedisOutgoing(site.redis).next_drains([site.worker.ref("s")], turns=800, size=10**7)

    site.go_back()
    site.archive.drain(held)
    new = site.say("new")
    site.compact()
    RedisOutgoing(site.redis).trim(held)
    site.store_away()

    assert site.told() == first + new
    assert len(site.lost()) == 1


def test_a_rollback_that_redis_lost_sets_no_turn_aside(site: Site) -> None:
    first = site.say("first")
    site.agent.checkpoint("s", name="here")
    second = _stored(site, "second")
    site.store.note()
    site.rollback("here")
    site.store_away()
    assert site.told() == first

    site.go_back()

    assert site.told() == first + second
    assert sorted(site.remembered()) == sorted(first + second)


def test_a_quiet_session_is_compared_once_redis_is_another_run(site: Site) -> None:
    """Nobody pushes to it, compacts it or asks about it: the sweep sees another run of Redis."""
    first = site.say("first")
    lists = RedisSweepLists(site.redis)
    ref = site.worker.ref("s")
    lists.wake([ref.namespace])
    assert lists.uncompared() == []
    site.store.note()
    lost = site.say("lost", turns=24)
    site.compact()
    site.store_away()

    site.go_back()
    assert lists.uncompared() == [ref]
    site.store_away()

    assert not set(site.archived()) & set(lost)
    assert not set(site.remembered()) & set(lost)
    assert set(site.archived()) <= set(first)
    assert lists.uncompared() == []


# --- What a restore from the backup that docs/operations.md describes gives back.


def copied(folder: Path) -> Path:
    """A copy of the archive in use, as ``sqlite3 archive.db ".backup copy.db"`` makes it."""
    copy = folder / "copy.db"
    with (
        closing(sqlite3.connect(folder / "archive.db")) as one,
        closing(sqlite3.connect(copy)) as two,
    ):
        one.backup(two)
    return copy


def restored(store: GoingBack, copy: Path) -> Site:
    """The site with both copies put back."""
    store.go_back()
    return Site(store, SqlArchive.open(f"sqlite:///{copy}"))


@pytest.mark.parametrize("way", [Restored], ids=["restored"])
def test_a_backup_with_archiving_paused_gives_back_every_turn_up_to_it(
    site: Site, tmp_path: Path
) -> None:
    said = site.say("first")
    site.compact()
    site.store_away()
    copy = copied(tmp_path)  # from here on, no archive worker runs
    said += site.say("meanwhile")
    site.compact()
    site.store.note()  # from here on, one runs again
    site.store_away()
    site.say("after")
    site.compact()
    site.store_away()

    after = restored(site.store, copy)
    said += after.say("new")
    after.compact()
    after.store_away()

    assert after.told() == said
    assert after.lost() == []
    after.archive.close()
