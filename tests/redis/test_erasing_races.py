"""Whatever a worker does while words are erased, before or after any step: none comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.redis.erasing_scene import WORDS, Scene, asking, scenes
from turnmill import ContextClient
from turnmill.contract import jobs
from turnmill.contract.legality import violations


@pytest.fixture
def scene(
    client: ContextClient, redis_client: redis.Redis, tmp_path: Path
) -> Iterator[Callable[[], Scene]]:
    """Makes a session whose words have left the log, in every form."""
    with scenes(client, redis_client, tmp_path) as make:
        yield make


OTHERS: list[tuple[str, object]] = [
    (jobs.ESTIMATE, None),
    (jobs.COMPACT, None),
    (jobs.SUMMARIZE, None),
    (jobs.FORCE, None),
    (jobs.ARCHIVE, None),
    (jobs.ROLLBACK, "after"),
    (jobs.ROLLBACK, 2),
    (jobs.ERASE, asking(30)),
    (jobs.ERASE, asking(matching="ember falcon")),
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
