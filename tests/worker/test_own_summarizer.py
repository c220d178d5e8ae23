"""A summarizer of another package: found by its entry point, trusted with nothing but its text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.entry_points import install
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import chat, push_all
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.keys import SUMMARIZERS
from turnmill_worker.summarizers.registry import GROUP

pytestmark = pytest.mark.worker

SOURCE = '''
from turnmill_worker.errors import SummarizerUnavailable
from turnmill_worker.ports.protocols import AwaitedSummary, digest
from turnmill_worker.ports.values import Summary
from turnmill_worker.spending import NOTHING
from turnmill_worker.summarizers.registry import SummarizerFactory


class Counting:
    """Says how many messages there were."""

    def __init__(self, model):
        self.model = model

    def summarize(self, request, counter):
        if self.model == "torn":
            raise KeyError(request.records[0][1]["content"])
        if self.model == "mistaken":
            return request.records[0][1]["content"]
        if self.model == "busy":
            raise SummarizerUnavailable("busy")
        told = f"{len(request.records)} messages about parcels came before."
        return Summary(text=told, model=self.model or "counting")


class Batches:
    """Done as soon as they are looked for."""

    def submit(self, policy, request, counter):
        names = {"batch": "b", "file": "f", "nonce": "n", "model": "batched"}
        return AwaitedSummary(**names, digest=digest(request))

    def poll(self, policy, awaited):
        return Counting(awaited.model)

    def cost(self, awaited):
        return NOTHING

    def discard(self, awaited):
        raise RuntimeError("gone")


class Factory(SummarizerFactory):
    def summarizers(self, policy):
        return [Counting(policy.model)]

    def batches(self):
        return Batches()

    def about(self):
        return {"counts": "messages"}
'''

COUNTING = Policy(
    max_tokens=2_000,
    summarizer="counting",
    strategies=("rolling", "window"),
    quality_threshold=0.0,
    model_attempts=0,
)


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One with the package that offers ``counting``, and another whose code does not load."""
    folder = tmp_path_factory.mktemp("worker")
    packages = install(
        folder / "packages", GROUP, "counting", "own_counting:Factory", source=SOURCE
    )
    install(packages, GROUP, "absent", "own_absent:Factory", source="import nobody_has_this")
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "TURNMILL_BATCH_FIRST_LOOK_S": "0.1"}
    with WorkerProcess(store.url, folder, env=env) as running:
        yield running


def first(client: ContextClient, policy: Policy, *, turns: int = 80) -> Compaction:
    """The record of the first compaction of a session with this policy."""
    client.open("s", policy)
    push_all(client, "s", chat(turns))
    wait_until(lambda: client.info("s").version >= 1, what="committed")
    return client.trajectory("s").compactions[0].record


@pytest.mark.usefixtures("worker")
def test_it_writes_for_policies_that_name_it(client: ContextClient) -> None:
    record = first(client, COUNTING)

    assert (record.model, record.failed) == ("counting", ())
    assert "messages about parcels came before" in client.read("s").summary


@pytest.mark.usefixtures("worker")
def test_it_may_be_told_a_model_and_take_batches(client: ContextClient) -> None:
    slow = {"max_tokens": 4_000, "soft_ratio": 0.5, "target_ratio": 0.3, "summary_ratio": 0.15}
    policy = COUNTING.model_copy(update={"batch": True, **slow})
    client.open("s", policy)

    for message in chat(200):
        client.push("s", message)
        wait_until(lambda: client.info("s").usage.pending == 0, what="counted")
        if client.info("s").usage.total > client.info("s").limits.soft:
            break
    wait_until(lambda: client.info("s").version >= 1, what="committed")

    assert client.trajectory("s").compactions[0].record.model == "batched"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"model": "torn"}, "SummarizerMisconfigured"),
        ({"model": "mistaken"}, "SummarizerMisconfigured"),
        ({"model": "busy"}, "SummarizerUnavailable"),
        ({"summarizer": "absent"}, "SummarizerMisconfigured"),
        ({"summarizer": "nobody"}, "UnknownSummarizer"),
    ],
)
def test_where_it_fails_or_is_unknown_extractive_stands_in_and_the_record_says_why(
    client: ContextClient, worker: WorkerProcess, wrong: dict[str, Any], kind: str
) -> None:
    record = first(client, COUNTING.model_copy(update=wrong))

    assert (record.model, record.failed) == ("extractive", (kind,))
    assert client.info("s").failures == 0
    assert "Anna wants number" not in worker.output()


@pytest.mark.usefixtures("client")
def test_the_log_and_the_list_of_workers_say_which_there_are(
    server: redis.Redis, worker: WorkerProcess
) -> None:
    wait_until(lambda: server.zcard(SUMMARIZERS), what="announced")

    entries: Any = server.zrange(SUMMARIZERS, 0, -1)
    told = json.loads(entries[0])["summarizers"]
    assert told["counting"] == told["extractive"] == ""
    assert told["openai"] == "TURNMILL_MODEL_KEY is not set"
    assert told["absent"].startswith("summarizer 'absent': ModuleNotFoundError at own_absent.py:1")
    assert "event='model' counts='messages' summarizer='counting'" in worker.output()
