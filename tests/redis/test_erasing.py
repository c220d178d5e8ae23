"""What is erased is gone whatever happens meanwhile; places, ids and chains stay."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.going_back import GoingBack, Restored
from tests.properties.models import AnyBatches, AnySummarizer
from tests.properties.stepping import Outside, SentHints, SteppedJob
from tests.redis.conftest import Site
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.codec import decode_json
from turnmill.contract.erasure import Erased, erasing
from turnmill.contract.legality import violations
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.failover.branches import LostBranch
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.ports.values import Cleansed, SessionInRedis, SessionRef
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisBatchNotes, RedisWaiting
from turnmill_worker.tokens import counter_for

# --- A session whose words are to be erased, and everything a worker may do with it.


WORDS = "never tell Priscilla Vandergelder about the ember falcon"
SAID = {"role": "user", "content": f"From now on, {WORDS} in the cottage."}
POLICY = Policy(max_tokens=1_024, quality_threshold=0.0, checkpoint_interval=0)


class Scene:
    """A session with turns in the archive, on their way to it, and in the log; jobs to run."""

    def __init__(self, client: ContextClient, server: redis.Redis, archive: SqlArchive) -> None:
        self.client, self.server, self.archive = client, server, archive
        self.ref = SessionRef(Namespace(client.namespace), SessionId("s"))
        self.outside = Outside(
            sessions=RedisSessions(server, archive=archive),
            states=RedisStates(server),
            outgoing=RedisOutgoing(server),
            archive=archive,
            hints=SentHints(),
            summarizer=AnySummarizer(),
            model=AnySummarizer(),
            waiting=RedisWaiting(server),
            notes=RedisBatchNotes(server),
            batches=AnyBatches(),
        )
        self.pushed = 0

    def job(self, task: str, asked: object = None) -> SteppedJob:
        """A job that has not begun."""
        return SteppedJob(task, self.ref, outside=self.outside, asked=asked)

    def do(self, *tasks: str) -> None:
        """Run these jobs, one after the other."""
        for task in tasks:
            self.job(task).finish()

    def push(self, turns: int) -> None:
        """Push so many turns."""
        for _ in range(turns):
            self.pushed += 1
            text = (
                f"Parcel {self.pushed}: Anna wants number {self.pushed * 17} on day {self.pushed}."
            )
            role = "assistant" if self.pushed % 2 else "user"
            self.client.push("s", {"role": role, "content": f"{text} It is brown and heavy."})

    def say(self) -> int:
        """Push the words; the turn's seq."""
        self.pushed += 1
        return self.client.push("s", SAID).seq

    def compact(self) -> None:
        """Count, and compact if that is due."""
        self.do(jobs.ESTIMATE, jobs.SUMMARIZE)

    def erase(self, *turns: int, **how: Any) -> SteppedJob:
        """An erasure that has not begun."""
        return self.job(jobs.ERASE, asking(*turns, **how))

    def everything(self) -> str:
        """All that Redis and the archive hold of the session, and what an agent reads."""
        found = [str(self.server.dump(key)) for key in self.server.keys(f"*{self.ref.namespace}*")]
        found += [str(each) for each in self.archive.turns(self.ref)]
        found += [str(each) for each in self.archive.compactions(self.ref)]
        found += [str(memory) for _, memory in self.archive.memories(self.ref.namespace)]
        found.append(str(self.client.read("s").messages))
        return "\n".join(found)


def asking(*turns: int, **how: Any) -> Mapping[str, Any]:
    """What an erasure is asked for."""
    told = {"matching": None, "subject": None, "repeats": False, "by": "", "dry_run": False} | how
    return erasing(turns, told.pop("matching"), told.pop("subject"), **told)


Made = Callable[[], Scene]


def _whole(made: Scene) -> None:
    """Have the words leave the log, in every form."""
    made.client.open("s", POLICY, "You carry parcels.")
    made.push(20)
    made.compact()
    made.client.checkpoint("s", name="before")
    assert made.say() == 21
    made.push(30)
    made.compact()
    made.client.checkpoint("s", name="after")
    made.do(jobs.ARCHIVE)
    made.push(30)
    made.compact()
    made.push(5)
    assert WORDS in made.everything()


class Scenes:
    """Makes the same session again and again: once by its jobs, and then from copies."""

    def __init__(self, url: str, server: redis.Redis, folder: Path) -> None:
        self._url, self._server, self._folder = url, server, folder
        self._keys: dict[bytes, bytes] = {}
        self._pushed = 0
        self._open: list[ContextClient | SqlArchive] = []

    def __call__(self) -> Scene:
        self.close()
        archive = SqlArchive.open(f"sqlite:///{self._database()}")
        client = ContextClient(self._url, namespace="erasing", broker=SilentWaker())
        self._open = [client, archive]
        made = Scene(client, self._server, archive)
        if self._keys:
            made.pushed = self._pushed
            return made
        _whole(made)
        dumps = {key: self._server.dump(key) for key in self._server.scan_iter()}
        self._keys = {key: value for key, value in dumps.items() if value is not None}
        self._pushed = made.pushed
        with closing(sqlite3.connect(self._folder / "archive.db")) as one:
            one.execute("VACUUM INTO ?", [f"{self._folder}/copy.db"])
        return made

    def _database(self) -> Path:
        """The archive's file as it was; Redis as it was, too."""
        file = self._folder / "archive.db"
        if self._keys:
            for each in self._folder.glob("archive.db*"):
                each.unlink()
            shutil.copy(self._folder / "copy.db", file)
            self._server.flushall()
            for key, value in self._keys.items():
                self._server.restore(key, 600_000, value)
        return file

    def close(self) -> None:
        """Leave no connection."""
        for each in self._open:
            each.close()


@pytest.fixture(scope="module")
def whole(
    redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenes]:
    with redis.Redis.from_url(redis_server.url) as server:
        made = Scenes(redis_server.url, server, tmp_path_factory.mktemp("erasing"))
        yield made
        made.close()


@pytest.fixture
def scene(whole: Scenes, redis_client: redis.Redis) -> Iterator[Scenes]:
    """Makes a session whose words have left the log, in every form."""
    # A dump of a packed string would not show its words.
    before: Any = redis_client.config_get("rdbcompression")
    redis_client.config_set("rdbcompression", "no")
    yield whole
    redis_client.config_set("rdbcompression", before["rdbcompression"])


# --- What is left of an erased turn: its place, its id, and no use for what awaited it.


def test_an_awaited_batch_is_of_no_use_after_an_erasure(scene: Made) -> None:
    now = scene()
    batched = POLICY.model_copy(update={"batch": True, "summarizer": "openai"})
    now.client.open("s", batched)
    snapshot = now.outside.sessions.snapshot(now.ref)
    assert snapshot is not None
    submitted = AwaitedSummary(batch="b", file="f", nonce="n", model="m", digest="d")
    assert now.outside.notes.remember(now.ref, submitted.of(snapshot))

    now.erase(21).finish()

    later = now.outside.sessions.snapshot(now.ref)
    noted = now.outside.notes.remembered(now.ref)
    assert later is not None
    assert noted is not None
    assert not noted.awaited.fits(later)
    info = now.client.info("s")
    assert info.due_in_s is not None, "a worker ends the batch"


def test_an_erased_turn_keeps_its_place_and_its_id(scene: Made) -> None:
    now = scene()
    seq = now.client.push("s", {"role": "user", "content": WORDS}, turn_id="mine").seq
    now.pushed += 1

    now.erase(21, seq).finish()

    again = now.client.push("s", {"role": "user", "content": WORDS}, turn_id="mine")
    other = now.client.push("s", {"role": "user", "content": "Other words."}, turn_id="mine")
    assert (again.seq, again.duplicate) == (other.seq, other.duplicate) == (seq, True)
    _check_erased(now, seq)


def _check_erased(now: Scene, seq: int, role: str = "user") -> None:
    past = now.outside.states.past(now.ref)
    assert past is not None
    [turn] = [turn for turn in past.log if turn.seq == seq]
    [message] = decode_json(turn.messages)
    assert message.keys() == {"role", "content"}
    assert message["role"] == role
    assert message["content"].startswith("[erased ")
    assert WORDS not in now.everything()


def test_a_checkpoint_made_between_the_steps_of_an_erasure_does_not_keep_the_words(
    scene: Made,
) -> None:
    steps = 0
    while True:
        now = scene()
        now.client.open("s", POLICY.model_copy(update={"checkpoint_interval": 1}))
        erasure = now.erase(21)
        for _ in range(steps):
            erasure.step()
        if erasure.ended:
            break
        now.client.checkpoint("s", name="between")
        now.push(1)
        erasure.finish()
        assert (erasure.error, erasure.refusal) == (None, None)
        now.compact()
        now.do(jobs.ARCHIVE)
        assert WORDS not in now.everything(), steps
        steps += 1


def test_a_turn_keeps_its_chain_in_the_log_and_in_the_archive(scene: Made) -> None:
    now = scene()
    now.do(jobs.ARCHIVE)
    before = _chains(now)
    assert len(set(before.values())) == now.pushed

    now.erase(21, now.pushed).finish()

    assert _chains(now) == before
    now.compact()
    now.do(jobs.ARCHIVE)
    assert _chains(now) == before
    assert now.archive.branches(now.ref) == []


def _chains(now: Scene) -> dict[Seq, str]:
    past = now.outside.states.past(now.ref)
    assert past is not None
    stored = {turn.seq: turn.chain for turn in now.archive.turns(now.ref)}
    logged = {turn.seq: turn.chain for turn in past.log}
    assert all(stored[seq] == logged[seq] for seq in stored.keys() & logged.keys())
    return stored | logged


# --- Whatever a worker does while words are erased, before or after any step: none comes back.


OTHERS: dict[str, tuple[str, object]] = {
    "estimate": (jobs.ESTIMATE, None),
    "compact": (jobs.COMPACT, None),
    "summarize": (jobs.SUMMARIZE, None),
    "force": (jobs.FORCE, None),
    "archive": (jobs.ARCHIVE, None),
    "checkpoint": (jobs.ROLLBACK, "after"),
    "version": (jobs.ROLLBACK, 2),
    "30": (jobs.ERASE, asking(30)),
    "text": (jobs.ERASE, asking(matching="ember falcon")),
}
others = pytest.mark.parametrize(("task", "asked"), OTHERS.values(), ids=OTHERS)


def _check(scene: Scene) -> None:
    scene.do(jobs.ARCHIVE)
    scene.compact()
    scene.compact()
    scene.do(jobs.ARCHIVE, jobs.ARCHIVE)
    assert WORDS not in scene.everything()
    assert violations(scene.client.read("s").messages) == []
    kept = {turn.seq: turn for turn in scene.archive.turns(scene.ref)}
    past = scene.outside.states.past(scene.ref)
    assert past is not None
    kept |= {turn.seq: turn for turn in past.log}
    assert sorted(kept) == list(range(1, scene.pushed + 1))
    others = [turn for seq, turn in kept.items() if seq not in (21, 30)]
    assert all(f"Parcel {turn.seq}:".encode() in turn.messages for turn in others)
    [listed] = scene.archive.sessions(scene.ref.namespace)
    assert listed.turns == len(scene.archive.turns(scene.ref))


@others
def test_a_job_that_has_read_the_words_does_not_write_them_back(
    scene: Made, task: str, asked: object
) -> None:
    steps = 0
    while True:
        now = scene()
        other = now.job(task, asked)
        for _ in range(steps):
            other.step()
        now.erase(21).finish()
        now.push(3)
        if other.ended:
            break
        other.finish()
        assert other.error is None
        _check(now)
        steps += 1
    assert steps > 1


@others
def test_a_job_between_the_steps_of_an_erasure_does_not_save_the_words(
    scene: Made, task: str, asked: object
) -> None:
    steps = 0
    while True:
        now = scene()
        erasure = now.erase(21)
        for _ in range(steps):
            erasure.step()
        if erasure.ended:
            break
        now.job(task, asked).finish()
        now.push(3)
        erasure.finish()
        assert (erasure.error, erasure.refusal) == (None, None)
        _check(now)
        steps += 1
    assert steps > 4


def test_an_erasure_whose_worker_died_is_done_by_asking_again(
    scene: Made,
) -> None:
    steps = 0
    while True:
        now = scene()
        erasure = now.erase(matching="EMBER   falcon")
        for _ in range(steps):
            erasure.step()
        if erasure.ended:
            break
        erasure.kill()
        again = now.erase(matching="EMBER   falcon")
        again.finish()
        assert (again.error, again.refusal) == (None, None)
        _check(now)
        steps += 1


def test_what_another_client_erased_is_in_no_later_read(scene: Made) -> None:
    now = scene()
    newest = now.say()
    assert WORDS in str(now.client.read("s").messages)

    now.erase(21, newest).finish()

    assert WORDS not in str(now.client.read("s").messages)


# --- What Redis lost when it went back is kept in the archive, and erased like everything else.


@pytest.fixture
def way() -> type[GoingBack]:
    """An operator puts a copy back."""
    return Restored


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
