"""What workers accept from a broker: tasks by name from anybody, in JSON, and nothing else."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """A worker that hardly ever sweeps: what gets done was asked for by message."""
    folder, env = tmp_path_factory.mktemp("wire"), {"TURNMILL_SWEEP_INTERVAL_S": "3600"}
    with WorkerProcess(store.url, folder, env=env) as running:
        yield running


@pytest.fixture
def silent(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """A client that publishes nothing itself."""
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as made:
        yield made


@pytest.fixture
def anybody(store: EmbeddedRedis) -> Iterator[Celery]:
    """A Celery client that knows the name of a task and nothing else of turnmill."""
    with Celery("anybody", broker=store.url, set_as_current=False) as app:
        yield app


def _counted(client: ContextClient, session: str) -> bool:
    return client.info(session).counted_seq == client.info(session).last_seq


@pytest.mark.usefixtures("worker")
def test_any_celery_client_can_send_a_task_by_name(silent: ContextClient, anybody: Celery) -> None:
    silent.push("s", {"role": "user", "content": "Hello"})

    anybody.send_task("turnmill.estimate", args=[silent.namespace, "s"], queue="estimate")

    wait_until(lambda: _counted(silent, "s"))


@pytest.mark.usefixtures("worker")
def test_a_message_written_without_celery_is_enough(
    silent: ContextClient, store: EmbeddedRedis
) -> None:
    silent.push("s", {"role": "user", "content": "Hello"})
    job = uuid.uuid4().hex
    body = json.dumps([[silent.namespace, "s"], {}, {}]).encode()
    message = {
        "body": base64.b64encode(body).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"lang": "go", "task": "turnmill.estimate", "id": job, "root_id": job},
        "properties": {
            "correlation_id": job,
            "delivery_tag": job,
            "delivery_mode": 2,
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": "estimate"},
        },
    }

    with redis.Redis.from_url(store.url) as plain:
        plain.lpush("estimate", json.dumps(message))

    wait_until(lambda: _counted(silent, "s"))


class _Bomb:
    """Unpickling it leaves a file behind."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self._file,))


def test_a_pickle_is_refused_unopened(
    silent: ContextClient, anybody: Celery, worker: WorkerProcess, tmp_path: Path
) -> None:
    crater = tmp_path / "crater"

    anybody.send_task(
        "turnmill.estimate", args=[_Bomb(crater), "s"], serializer="pickle", queue="estimate"
    )
    wait_until(lambda: "not in JSON" in worker.output(), what="the pickle refused")
    silent.push("s", {"role": "user", "content": "Next, please."})
    anybody.send_task("turnmill.estimate", args=[silent.namespace, "s"], queue="estimate")

    wait_until(lambda: _counted(silent, "s"))
    assert not crater.exists()


@pytest.mark.parametrize(
    "args",
    [["no such thing!", "s"], ["ns", "{tag}"], ["ns", 7], ["ns", None], ["ns"]],
    ids=str,
)
def test_impossible_names_fail_their_own_job_only(
    args: list[object], silent: ContextClient, anybody: Celery, worker: WorkerProcess
) -> None:
    sent = anybody.send_task("turnmill.estimate", args=args, queue="estimate")
    wait_until(lambda: f"{sent.id}] raised" in worker.output(), what="the job failed")

    silent.push("s", {"role": "user", "content": "Next, please."})
    anybody.send_task("turnmill.estimate", args=[silent.namespace, "s"], queue="estimate")

    wait_until(lambda: _counted(silent, "s"))


def test_an_unknown_task_does_not_end_the_worker(
    silent: ContextClient, anybody: Celery, worker: WorkerProcess
) -> None:
    anybody.send_task("turnmill.evil", args=["s"], queue="estimate")
    wait_until(lambda: "turnmill.evil" in worker.output())
    silent.push("s", {"role": "user", "content": "Next, please."})

    anybody.send_task("turnmill.estimate", args=[silent.namespace, "s"], queue="estimate")

    wait_until(lambda: _counted(silent, "s"))
