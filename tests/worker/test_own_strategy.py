"""A strategy of another package: found by its entry point, named by policies like our own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.entry_points import install
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import chat, push_all
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.job_outcomes import Compaction
from turnmill_worker.compaction.strategies.registry import GROUP

pytestmark = pytest.mark.worker

SOURCE = """
from dataclasses import replace

from turnmill.contract.context import Elision
from turnmill_worker.compaction.strategies.registry import Covers, Elides
from turnmill_worker.compaction.strategies.window import window, window_budget


def halve(snapshot, counter):
    made = []
    for turn in snapshot.turns[:-3]:
        message = turn.shown[0]
        short = {**message, "content": "hushed"}
        before, after = (counter.count_messages([each]) for each in (message, short))
        if after < before:
            made.append(Elision(
                seq=turn.seq, index=0, message=short, tokens_before=before, tokens_after=after
            ))
    return snapshot.with_elisions(made) if made else snapshot


def gone(snapshot, counter):
    found = window(snapshot, counter)
    return found and replace(found, strategy="gone")


HUSH = Elides(halve)
GONE = Covers(gone, budget=window_budget)
"""


@pytest.fixture(scope="module")
def worker(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One with two packages that offer strategies, and a third whose code does not load."""
    folder = tmp_path_factory.mktemp("worker")
    packages = install(folder / "packages", GROUP, "hush", "own_hush:HUSH", source=SOURCE)
    install(packages, GROUP, "gone", "own_gone:GONE", source=SOURCE)
    install(packages, GROUP, "absent", "own_lost:LOST", source="import nobody_has_this")
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    with WorkerProcess(store.url, folder, env={"PYTHONPATH": path}) as running:
        yield running


def first(client: ContextClient, *strategies: str) -> Compaction:
    """The record of the first compaction of a session with these strategies."""
    policy = Policy(max_tokens=2_000, strategies=strategies, quality_threshold=0.0)
    client.open("s", policy)
    push_all(client, "s", chat(80))
    wait_until(lambda: client.info("s").version >= 1, what="committed")
    return client.trajectory("s").compactions[0].record


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("name", ["hush", "gone"])
def test_a_policy_may_name_it(client: ContextClient, name: str) -> None:
    assert first(client, name, "window").strategy == name


@pytest.mark.parametrize(
    ("name", "told"), [("absent", "ModuleNotFoundError"), ("dream", "unknown")]
)
def test_one_that_the_worker_lacks_is_passed_over_and_the_log_says_so(
    client: ContextClient, worker: WorkerProcess, name: str, told: str
) -> None:
    assert first(client, name, "window").strategy == "window"
    assert any(name in line and told in line for line in worker.output().splitlines())


def test_without_any_that_the_worker_knows_the_job_says_which_there_are(
    worker: WorkerProcess, client: ContextClient
) -> None:
    client.open("s", Policy(max_tokens=2_000, strategies=("dream",)))
    push_all(client, "s", chat(80))

    wait_until(lambda: "UnknownStrategy" in worker.log.read_text(), what="told")
    assert client.read("s").tokens <= 2_000
