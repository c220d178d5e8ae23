"""What Redis lost when it went back is kept in the archive, and erased like everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.going_back import Restored
from tests.redis.conftest import Site
from tests.redis.erasing_scene import SAID, WORDS, asking
from turnmill import Policy
from turnmill.contract.erasure import Erased
from turnmill_worker.archive import SqlArchive
from turnmill_worker.failover.branches import LostBranch
from turnmill_worker.ports.values import Cleansed, SessionInRedis, SessionRef
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    opened = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    with closing(opened), Restored(tmp_path) as store:
        made = Site(store, opened)
        made.agent.open("s", Policy(max_tokens=512))
        yield made


class _Stopped(RedisStates):
    """What a worker sees of a session that is stopped once, before it erases in Redis."""

    meanwhile: Callable[[], object] | None = None

    def erase(self, ref: SessionRef, past: SessionInRedis, left: Cleansed) -> int:
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return super().erase(ref, past, left)


def _erase(
    site: Site, *turns: int, matching: str | None = None, states: RedisStates | None = None
) -> Erased:
    erasing = Erasing(
        states or RedisStates(site.redis), site.archive, counter_for, site.worker.hints
    )
    return erasing.erase(site.worker.ref("s"), asking(*turns, matching=matching))


def _archived(site: Site) -> tuple[list[LostBranch], str]:
    """The branches, and all that the archive has of the session."""
    ref = site.worker.ref("s")
    found = []
    for epoch in site.archive.epochs(ref):
        found += [str(each) for each in site.archive.turns(ref, epoch=epoch)]
        found += [str(each) for each in site.archive.compactions(ref, epoch=epoch)]
    return site.archive.branches(ref), "\n".join(found)


def test_a_turn_that_redis_lost_is_erased_by_its_words(site: Site) -> None:
    site.say("first")
    site.store.note()
    lost = site.agent.push("s", SAID).seq
    site.say("lost")
    site.compact()
    site.store_away()
    site.go_back()
    site.say("new", turns=20)
    site.compact()
    site.store_away()
    branches, before = _archived(site)
    assert len(branches) == 1
    assert WORDS in before

    told = _erase(site, matching="ember falcon")

    kept, after = _archived(site)
    assert WORDS not in after
    assert kept == branches
    assert (told.turns, told.earlier) == ((), 1)
    turns = {turn.seq: turn for turn in site.archive.turns(site.worker.ref("s"))}
    assert turns[lost].erased_at_ms is None, "another turn has its place now"


def test_an_erasure_planned_before_redis_went_back_brings_no_lost_turn(site: Site) -> None:
    first = site.say("first")
    site.store.note()
    site.agent.push("s", SAID)
    site.say("lost")
    new: list[str] = []

    def meanwhile() -> None:
        site.go_back()
        new.extend(site.say("new", turns=24))

    states = _Stopped(site.redis)
    states.meanwhile = meanwhile
    _erase(site, matching="ember falcon", states=states)
    site.store_away()

    assert site.told() == first + new
    assert WORDS not in _archived(site)[1]


def test_contexts_that_redis_lost_are_emptied_of_turns_that_it_kept(site: Site) -> None:
    seq = site.agent.push("s", SAID).seq
    site.say("first")
    site.store.note()
    site.compact()
    site.store_away()
    site.go_back()
    site.say("new")
    site.compact()
    site.store_away()
    [branch] = _archived(site)[0]
    assert (branch.turns, branch.compactions) == (0, 1)
    [lost] = site.archive.compactions(site.worker.ref("s"), epoch=branch.epoch)
    assert "ember falcon" in str(lost.context)

    told = _erase(site, seq)

    assert told.turns == (seq,)
    assert "ember falcon" not in _archived(site)[1]


def test_a_turn_pushed_again_is_erased_where_it_was_lost_too(site: Site) -> None:
    site.say("first")
    site.store.note()
    site.say("lost", turns=3)
    site.agent.push("s", SAID)
    site.say("lost")
    site.compact()
    site.store_away()
    site.go_back()
    again = site.agent.push("s", SAID).seq
    site.say("new", turns=20)

    told = _erase(site, again)

    assert (told.turns, told.earlier) == ((again,), 1), "not the lost turn at its place"
    assert WORDS not in _archived(site)[1]


def test_an_erasure_that_redis_lost_is_done_by_asking_again(site: Site) -> None:
    seq = site.agent.push("s", SAID).seq
    site.say("first")
    site.compact()
    site.store_away()
    site.store.note()
    _erase(site, seq)
    site.store_away()
    site.go_back()
    site.say("new")
    site.compact()
    site.store_away()

    _erase(site, matching="ember falcon")

    site.store_away()
    assert "ember falcon" not in _archived(site)[1]
    assert "ember falcon" not in str(site.agent.read("s").messages)
    assert not [turn for turn in site.told() if "ember falcon" in turn]
