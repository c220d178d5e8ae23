"""What the worker tests share: long jobs, conservation, Celery events, and ways to end a worker."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import redis
from celery import Celery

from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, ContextInfo, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.jobs import QUEUE_OF
from turnmill.contract.keys import SessionKeys, session_keys, shard_of
from turnmill.contract.names import Namespace, SessionId
from turnmill.testing import FakeEndpoint

JsonMessage = dict[str, Any]
NewWorker = Callable[..., WorkerProcess]
NewServer = Callable[..., EmbeddedRedis]

KEY = "sk-for-tests-only-0123456789"
"""Of a made-up model endpoint."""

# No quality gate: a session whose summary is not good enough rests above its soft limit, and these
# tests wait until it is below.
SMALL = Policy(max_tokens=2_000, quality_threshold=0.0)
"""Compacted after a few dozen turns of ``chat``."""

ROLLING = Policy(max_tokens=2_000, strategies=("rolling", "window"), quality_threshold=0.0)
"""As ``SMALL``, but the first rung needs a summarizer."""

PATIENT = Policy(
    max_tokens=4_000,
    soft_ratio=0.5,
    target_ratio=0.3,
    summary_ratio=0.15,
    summarizer="openai",
    model="gpt-4o-mini",
    strategies=("rolling", "window"),
    quality_threshold=0.0,
    batch=True,
)
"""Soft limit 2,000 tokens; a batch may begin up to 2,500, and is awaited up to 3,000."""


# Conversations


def chat(turns: int, *, topic: str = "parcel") -> list[JsonMessage]:
    """As many messages of some 30 tokens, all different, users and assistants in turn."""
    return [
        {
            "role": "assistant" if at % 2 else "user",
            "content": f"{topic} {at}: Anna wants number {at * 17} brought to street {at * 7} "
            f"on day {at % 28 + 1}, not to the shop in room {at % 9}.",
        }
        for at in range(turns)
    ]


def long_turns(turns: int = 6, *, kilobytes: int = 40) -> list[JsonMessage]:
    """Turns whose summary takes a worker a second or more: time to see it hold the lease."""
    lines = [f"Parcel {i} goes to street {i * 7}, said Anna on day {i % 31}." for i in range(10**4)]
    text = " ".join(lines)[: kilobytes * 1000]
    return [{"role": "user", "content": f"List {at}. {text}"} for at in range(turns)]


def push_all(client: ContextClient, session: str, messages: Iterable[JsonMessage]) -> None:
    """Push the messages, one turn each."""
    client.push_many((session, message) for message in messages)


def in_one_shard(name: str, count: int) -> list[str]:
    """As many names of sessions that lie in one shard."""
    names = [f"{name}-{at}" for at in range(1000)]
    shard = shard_of(SessionId(names[0]))
    return [each for each in names if shard_of(SessionId(each)) == shard][:count]


def user(text: str) -> JsonMessage:
    """What a user says."""
    return {"role": "user", "content": text}


# What is stored


def keys_of(client: ContextClient, session: str) -> SessionKeys:
    """The session's keys in Redis."""
    return session_keys(Namespace(client.namespace), SessionId(session))


class Stored:
    """All turns of a session in Redis, covered ones first, and its compaction records.

    ``at_rest``: nobody is at it, so that it need not be one transaction, which a Cluster has not.
    """

    def __init__(self, server: redis.Redis, keys: SessionKeys, *, at_rest: bool = False) -> None:
        raw: Any = server
        with raw.pipeline(transaction=not at_rest) as pipe:
            pipe.xrange(keys.covered)
            pipe.xrange(keys.log)
            pipe.xrange(keys.compactions)
            pipe.hget(keys.meta, "watermark")
            covered, log, records, watermark = pipe.execute()
        self.watermark = int(watermark or 0)
        self.covered = [int(entry[1][b"seq"]) for entry in covered]
        self.log = [int(entry[0].split(b"-")[0]) for entry in log]
        self.messages = [json.loads(entry[1][b"messages"]) for entry in [*covered, *log]]
        self.versions = [json.loads(entry[1][b"record"])["version"] for entry in records]

    def assert_conserved(self, pushed: Sequence[JsonMessage]) -> None:
        """Every pushed turn is there exactly once, as pushed, and on its side of the watermark."""
        assert [*self.covered, *self.log] == list(range(1, len(pushed) + 1))
        assert self.messages == [[message] for message in pushed]
        assert max(self.covered, default=0) == self.watermark
        assert self.versions == list(range(1, len(self.versions) + 1))


def stored(server: redis.Redis, client: ContextClient, session: str) -> Stored:
    """What Redis holds of the session."""
    return Stored(server, keys_of(client, session))


def settled(client: ContextClient, session: str, *, turns: int) -> bool:
    """Whether all turns are counted and the session is under its soft limit, with nothing due."""
    info: ContextInfo = client.info(session)
    return (
        info.last_seq == info.counted_seq == turns
        and info.due_in_s is None
        and info.usage.total <= info.limits.soft
    )


def until_settled(client: ContextClient, session: str, *, turns: int = 0) -> None:
    """Wait until it is settled, with so many turns, or with those it has."""
    turns = turns or client.info(session).last_seq
    wait_until(lambda: settled(client, session, turns=turns), within_s=60, what=f"{session}: rest")


def grown(
    client: ContextClient, session: str, turns: int, *, policy: Policy = SMALL, topic: str = ""
) -> list[JsonMessage]:
    """Open the session, push so many turns, and wait until it is settled; returns them."""
    pushed = chat(turns, topic=topic or f"parcel of {session}")
    client.open(session, policy)
    push_all(client, session, pushed)
    until_settled(client, session)
    return pushed


def drained(server: redis.Redis, client: ContextClient, session: str) -> bool:
    """Whether the archive has all that was covered."""
    keys = keys_of(client, session)
    waiting = int(server.xlen(keys.covered)) + int(server.xlen(keys.commits))
    return waiting == 0 and server.zscore(keys.unarchived, session) is None


def until_drained(server: redis.Redis, client: ContextClient, session: str) -> None:
    """Wait until the archive has all that was covered."""
    wait_until(lambda: drained(server, client, session), within_s=60, what=f"{session}: drained")


# Celery, from outside


def plain_celery(broker_url: str) -> Celery:
    """A Celery app that knows nothing of turnmill."""
    return Celery("elsewhere", broker=broker_url, set_as_current=False)


def send(broker_url: str, task: str, *args: object) -> str:
    """Publish a task by name as anybody could; returns its id."""
    with plain_celery(broker_url) as app:
        sent = app.send_task(task, args=args, queue=QUEUE_OF.get(task, "estimate"))
        return str(sent.id)


class Events:
    """Celery's task events, as Flower would see them, gathered while the block runs."""

    def __init__(self, broker_url: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self._app = plain_celery(broker_url)
        self._connection = self._app.connection_for_read()
        self._receiver = self._app.events.Receiver(
            self._connection, handlers={"*": self.seen.append}
        )
        self._thread = threading.Thread(target=self._gather, daemon=True)

    def _gather(self) -> None:
        for _ in self._receiver.itercapture(limit=None, timeout=None, wakeup=False):
            pass

    def results(self, session: str | None = None) -> list[dict[str, Any]]:
        """Results of succeeded tasks in the order they came, of one session or all."""
        found = [
            ast.literal_eval(event["result"])
            for event in list(self.seen)
            if event["type"] == "task-succeeded"
        ]
        return [one for one in found if session in (None, one.get("session"))]

    def outcomes(self, session: str | None = None) -> list[str]:
        """The outcomes of succeeded tasks, of one session or all."""
        return [str(one["outcome"]) for one in self.results(session)]

    def failures(self) -> list[dict[str, Any]]:
        """Events of failed tasks."""
        return [event for event in list(self.seen) if event["type"] == "task-failed"]

    def __enter__(self) -> Self:
        self._thread.start()
        publisher = self._app.events.Dispatcher(self._app.connection_for_write(), enabled=True)

        def heard() -> bool:
            # Pub/sub keeps nothing: only an event that arrives proves that we listen.
            publisher.send("test-ping")
            return any(event["type"] == "test-ping" for event in list(self.seen))

        wait_until(heard, what="event receiver listening")
        publisher.close()
        publisher.connection.release()
        return self

    def __exit__(self, *_: object) -> None:
        self._receiver.should_stop = True
        self._thread.join(timeout=10)
        self._connection.release()
        self._app.close()


class Monitor:
    """Every command a Redis server is sent while the block runs, as MONITOR prints them."""

    _BODY = re.compile(rb'\\"body\\": \\"([A-Za-z0-9+/=]+)\\"')

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname or "", where.port or 0))
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._gather, daemon=True)

    def _gather(self) -> None:
        with suppress(ConnectionError):  # Redis may have more to say when nobody listens any more
            while chunk := self._socket.recv(65536):
                self._chunks.append(chunk)

    def text(self) -> str:
        """All commands so far, and behind them the bodies of Celery messages, decoded."""
        raw = b"".join(self._chunks)
        bodies = [base64.b64decode(found) for found in self._BODY.findall(raw)]
        return b"\n".join([raw, *bodies]).decode(errors="replace")

    def __enter__(self) -> Self:
        self._socket.sendall(b"MONITOR\r\n")
        self._thread.start()
        wait_until(lambda: self._chunks, what="MONITOR answered")
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=10)
        self._socket.close()


# Workers


def archive_in(folder: Path) -> dict[str, str]:
    """The environment of a worker with an archive in this folder's ``data``."""
    return {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}


def asks(endpoint: FakeEndpoint) -> dict[str, str]:
    """The environment of a worker that asks this endpoint's models."""
    return {"TURNMILL_MODEL_URL": endpoint.base_url, "TURNMILL_MODEL_KEY": KEY}


def end_with(worker: WorkerProcess, *signals: signal.Signals, within_s: float = 40.0) -> None:
    """Send the signals, each once the one before was noticed; at last kill it, as systemd would."""
    process = worker._process
    assert process is not None
    for number, one in enumerate(signals, 1):
        os.kill(worker.pid, one)
        if number < len(signals):
            wait_until(lambda: "hutdown" in worker.output(), what="shutdown noticed")
    try:
        process.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        worker.kill()


def debug_worker(url: str, folder: Path, *, env: Mapping[str, str]) -> WorkerProcess:
    """A worker that logs at DEBUG."""
    worker = WorkerProcess(url, folder, name="debug", env=env)
    worker._command = [{"INFO": "DEBUG"}.get(word, word) for word in worker._command]
    return worker


# Questions


def question_keys(server: redis.Redis, namespace: str, kind: str) -> list[bytes]:
    """The keys of questions (``ask``) or of their answers (``answer``) there are."""
    found: Any = server.keys(f"turnmill:{{{namespace}/*:{kind}:*")
    return list(found)


@contextmanager
def asking(call: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Ask in a thread of its own; what it raised is in the list when the block has ended."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield raised
    thread.join(timeout=30)
    assert not thread.is_alive()
