"""What is left of an erased turn: its place, its id, and no use for what awaited it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.redis.erasing_scene import POLICY, WORDS, Scene, scenes
from turnmill import ContextClient
from turnmill.contract import jobs
from turnmill.contract.codec import decode_json
from turnmill.contract.names import Seq
from turnmill_worker.ports.protocols import AwaitedSummary


@pytest.fixture
def scene(
    client: ContextClient, redis_client: redis.Redis, tmp_path: Path
) -> Iterator[Callable[[], Scene]]:
    """Makes a session whose words have left the log, in every form."""
    with scenes(client, redis_client, tmp_path) as make:
        yield make


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
    scene: Callable[[], Scene],
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


def test_a_turn_keeps_its_chain_in_the_log_and_in_the_archive(scene: Callable[[], Scene]) -> None:
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


def test_blocks_of_a_provider_go_with_the_turn(scene: Callable[[], Scene]) -> None:
    now = scene()
    blocks = {"dialect": "anthropic", "order": [{"type": "thinking", "thinking": WORDS}]}
    said = {"role": "assistant", "content": "Yes.", "native": blocks}
    seq = now.client.push("s", said).seq

    now.erase(matching="ember falcon").finish()

    _check_erased(now, seq, role="assistant")
