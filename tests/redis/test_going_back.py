"""Redis returns to an earlier state: what it lost is said and kept, never silently replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.going_back import WAYS, GoingBack
from tests.redis.conftest import Worker
from tests.redis.test_counting_and_committing import commit_from
from turnmill import ContextClient, Policy, SilentWaker
from turnmill_worker.archive import SqlArchive
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.requests.export import Exporting
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing

SMALL = Policy(max_tokens=512)
SPACE = "shop"


class Site:
    """An agent and a worker, whose Redis may go back; the archive does not."""

    def __init__(self, store: GoingBack, archive: SqlArchive) -> None:
        self.store = store
        self.archive = archive
        self.connect()

    def connect(self) -> None:
        """Reach Redis where it is now."""
        self.redis = redis.Redis.from_url(self.store.url)
        self.agent = ContextClient(self.store.url, namespace=SPACE, broker=SilentWaker())
        self.worker = Worker(self.redis, SPACE)
        outgoing = RedisOutgoing(self.redis)
        self.archiving = Archiving(outgoing, self.archive, self.worker.hints)
        self.exporting = Exporting(RedisStates(self.redis), outgoing, self.archive)

    def go_back(self) -> None:
        """Have Redis return to the state that was noted."""
        self.store.go_back()
        self.connect()

    def say(self, words: str, turns: int = 12) -> list[str]:
        """Push turns that begin with these words; returns their texts."""
        said = [f"{words} {at} " + "word " * 60 for at in range(turns)]
        for text in said:
            self.agent.push("s", {"role": "user", "content": text})
        return said

    def compact(self) -> None:
        """Commit once."""
        assert self.worker.work("s") == "committed"

    def store_away(self) -> None:
        """Archive all that waits."""
        self.archiving.archive(self.worker.ref("s"))

    def told(self) -> list[str]:
        """The texts of the whole session, as they are exported."""
        found = self.exporting.trajectory(self.worker.ref("s"))
        assert [turn.seq for turn in found.turns] == sorted({turn.seq for turn in found.turns})
        return [str(turn.messages[0]["content"]) for turn in found.turns]


@pytest.fixture(params=WAYS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    opened = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    with closing(opened), request.param(tmp_path) as store:
        made = Site(store, opened)
        made.agent.open("s", SMALL)
        yield made


def test_no_turn_pushed_after_redis_went_back_is_missing(site: Site) -> None:
    first = site.say("first")
    site.compact()
    site.store.note()
    site.say("lost")
    site.compact()
    site.store_away()

    site.go_back()
    new = site.say("new")
    site.compact()
    site.store_away()

    assert site.told() == first + new


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
