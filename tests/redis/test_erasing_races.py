"""Whatever a worker does while words are erased, before or after any step: none comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.properties.models import AnyBatches, AnySummarizer
from tests.properties.stepping import Outside, SentHints, SteppedJob
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.codec import decode_json
from turnmill.contract.erasure import erasing
from turnmill.contract.legality import violations
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.batches import AwaitedSummary
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.batch_notes import RedisBatchNotes
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summary_queue import RedisWaiting

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
        return SteppedJob(task, self.ref, outside=self.outside, asked=asked)

    def do(self, *tasks: str) -> None:
        for task in tasks:
            self.job(task).finish()

    def push(self, turns: int) -> None:
        for _ in range(turns):
            self.pushed += 1
            text = (
                f"Parcel {self.pushed}: Anna wants number {self.pushed * 17} on day {self.pushed}."
            )
            role = "assistant" if self.pushed % 2 else "user"
            self.client.push("s", {"role": role, "content": f"{text} It is brown and heavy."})

    def say(self) -> int:
        self.pushed += 1
        return self.client.push("s", SAID).seq

    def compact(self) -> None:
        self.do(jobs.ESTIMATE, jobs.SUMMARIZE)

    def erase(self, *turns: int, **how: Any) -> SteppedJob:
        return self.job(jobs.ERASE, _asking(*turns, **how))

    def everything(self) -> str:
        """All that Redis and the archive hold of the session, and what an agent reads."""
        found = [str(self.server.dump(key)) for key in self.server.keys(f"*{self.ref.namespace}*")]
        found += [str(each) for each in self.archive.turns(self.ref)]
        found += [str(each) for each in self.archive.compactions(self.ref)]
        found += [str(memory) for _, memory in self.archive.memories(self.ref.namespace)]
        found.append(str(self.client.read("s").messages))
        return "\n".join(found)


def _asking(*turns: int, **how: Any) -> Mapping[str, Any]:
    told = {"matching": None, "subject": None, "repeats": False, "by": "", "dry_run": False} | how
    return erasing(turns, told.pop("matching"), told.pop("subject"), **told)


@pytest.fixture
def scene(
    client: ContextClient, redis_client: redis.Redis, tmp_path: Path
) -> Iterator[Callable[[], Scene]]:
    """Makes a session whose words have left the log, in every form."""
    archive = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    # A dump of a packed string would not show its words.
    before: Any = redis_client.config_get("rdbcompression")
    redis_client.config_set("rdbcompression", "no")

    def make() -> Scene:
        made = Scene(client, redis_client, archive)
        client.forget("s")
        archive.forget(made.ref)
        client.open("s", POLICY, "You carry parcels.")
        made.push(20)
        made.compact()
        client.checkpoint("s", name="before")
        assert made.say() == 21
        made.push(30)
        made.compact()
        client.checkpoint("s", name="after")
        made.do(jobs.ARCHIVE)
        made.push(30)
        made.compact()
        made.push(5)
        assert WORDS in made.everything()
        return made

    yield make
    redis_client.config_set("rdbcompression", before["rdbcompression"])
    archive.close()


OTHERS: list[tuple[str, object]] = [
    (jobs.ESTIMATE, None),
    (jobs.COMPACT, None),
    (jobs.SUMMARIZE, None),
    (jobs.FORCE, None),
    (jobs.ARCHIVE, None),
    (jobs.ROLLBACK, "after"),
    (jobs.ROLLBACK, 2),
    (jobs.ERASE, _asking(30)),
    (jobs.ERASE, _asking(matching="ember falcon")),
]
IDS = [
    "estimate",
    "compact",
    "summarize",
    "force",
    "archive",
    "checkpoint",
    "version",
    "30",
    "text",
]


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


@pytest.mark.parametrize(("task", "asked"), OTHERS, ids=IDS)
def test_a_job_that_has_read_the_words_does_not_write_them_back(
    scene: Callable[[], Scene], task: str, asked: object
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


@pytest.mark.parametrize(("task", "asked"), OTHERS, ids=IDS)
def test_a_job_between_the_steps_of_an_erasure_does_not_save_the_words(
    scene: Callable[[], Scene], task: str, asked: object
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
    scene: Callable[[], Scene],
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


def test_an_awaited_batch_is_of_no_use_after_an_erasure(scene: Callable[[], Scene]) -> None:
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


def test_an_erased_turn_keeps_its_place_and_its_id(scene: Callable[[], Scene]) -> None:
    now = scene()
    seq = now.client.push("s", {"role": "user", "content": WORDS}, turn_id="mine").seq
    now.pushed += 1

    now.erase(21, seq).finish()

    again = now.client.push("s", {"role": "user", "content": WORDS}, turn_id="mine")
    assert (again.seq, again.duplicate) == (seq, True)
    _check_erased(now, seq)


def _check_erased(now: Scene, seq: int) -> None:
    past = now.outside.states.past(now.ref)
    assert past is not None
    [turn] = [turn for turn in past.log if turn.seq == seq]
    [message] = decode_json(turn.messages)
    assert message["role"] == "user"
    assert message["content"].startswith("[erased ")
    assert WORDS not in now.everything()
