"""Redis returns to an earlier state than the archive: nothing is missing or silently replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.redis.conftest import Site
from turnmill import Policy
from turnmill.contract.errors import NoCheckpoint
from turnmill_worker.ports.protocols import ArchiveDiverged
from turnmill_worker.store.outgoing import RedisOutgoing


def _stored(site: Site, words: str) -> list[str]:
    """Turns that were pushed, compacted and archived; their texts."""
    said = site.say(words)
    site.compact()
    site.store_away()
    return said


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


def test_each_loss_is_a_branch_of_its_own_and_is_logged_without_content(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    first = site.say("first")
    for words in ("once", "twice"):
        site.store.note()
        _stored(site, words)
        site.go_back()
    new = _stored(site, "new")

    assert site.told() == first + new
    assert len(site.lost()) == 2
    said = capsys.readouterr().out
    assert said.count("redis went back") == 2
    assert "word" not in said


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


def test_a_version_that_redis_lost_is_not_restored(site: Site) -> None:
    _stored(site, "first")
    site.store.note()
    _stored(site, "lost")

    site.go_back()

    with pytest.raises(NoCheckpoint):
        site.rollback(2)
    assert site.lost() != []


def test_a_clock_set_back_after_a_session_was_forgotten_costs_the_next_of_its_name_no_turn(
    site: Site,
) -> None:
    ref, key = site.worker.ref("s"), site.worker.keys("s").forgotten
    _stored(site, "forgotten")
    site.agent.forget("s")
    members: Any = site.redis.zrange(key, 0, -1, withscores=True)
    site.redis.delete(key)
    for member, score in members:  # as a clock an hour ahead had it
        at_us, name = member.decode().split(":")
        site.redis.zadd(key, {f"{int(at_us) + 3_600_000_000}:{name}": score})

    site.agent.open("s", Policy(max_tokens=512))
    site.store.note()
    lost = _stored(site, "lost")
    site.go_back()
    new = _stored(site, "new")
    site.archiving.forget(ref)

    assert site.told() == new
    assert [turns for turns, _, _ in site.lost()] == [len(lost) - 1]
