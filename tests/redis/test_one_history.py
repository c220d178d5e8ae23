"""After Redis went back the archive holds one history of a session, and the lost one beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from redis import Redis

from tests.redis.conftest import Site
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Drain, SessionRef
from turnmill_worker.store.sweep_lists import RedisSweepLists


def test_a_commit_of_fewer_turns_than_were_lost_leaves_no_lost_turn_in_the_session(
    site: Site,
) -> None:
    first = site.say("first", turns=24)
    site.store.note()
    lost = site.say("lost", turns=24)
    site.compact()
    site.store_away()

    site.go_back()
    site.compact()
    new = site.say("new", turns=30)
    site.store_away()

    assert site.archived() == first[: len(site.archived())]
    assert site.told() == first + new
    assert not set(site.remembered()) & set(lost)


def test_turns_archived_before_redis_lost_their_commit_can_be_rolled_back(site: Site) -> None:
    site.agent.checkpoint("s", name="begin")
    site.say("first", turns=24)
    site.store.note()
    site.compact()
    site.store_away()

    site.go_back()
    site.rollback("begin")
    site.store_away()
    new = site.say("new")

    assert site.told() == new
    assert site.archived() == []
    assert site.remembered() == []


class _Stopped(SqlArchive):
    """The archive of a worker that is stopped once, when it has read what it is to store."""

    meanwhile: Callable[[], object] | None = None

    def drain(self, drains: Mapping[SessionRef, Drain]) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        super().drain(drains)


def test_a_drain_of_what_redis_lost_that_nobody_follows_is_kept_apart(
    site: Site, tmp_path: Path
) -> None:
    """A worker was stopped before it stored, and goes on where nothing is compacted any more."""
    first = site.say("first")
    site.store.note()
    lost = site.say("lost", turns=24)
    site.compact()
    new: list[str] = []

    def meanwhile() -> None:
        site.go_back()
        new.extend(site.say("new", turns=2))

    with closing(_Stopped.open(f"sqlite:///{tmp_path}/archive.db")) as archive:
        archive.meanwhile = meanwhile
        site.archiving_with(archive).archive(site.worker.ref("s"))

    assert not set(site.archived()) & set(lost)
    assert not set(site.remembered()) & set(lost)
    assert site.told() == first + new
    assert len(site.lost()) == 1


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


def test_workers_that_may_not_ask_for_the_run_of_redis_go_on(site: Site) -> None:
    site.say("first")
    site.redis.acl_setuser("w", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"])
    with Redis.from_url(site.store.url, username="w") as limited:
        assert RedisSweepLists(limited).uncompared() == []
