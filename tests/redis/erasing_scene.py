"""A session whose words are to be erased, and everything a worker may do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.properties.models import AnyBatches, AnySummarizer
from tests.properties.stepping import Outside, SentHints, SteppedJob
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.erasure import erasing
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisBatchNotes, RedisWaiting

__all__ = ["POLICY", "WORDS", "Scene", "asking", "scenes"]

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


@contextmanager
def scenes(
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
