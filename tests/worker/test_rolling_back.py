"""Going back in a session, far or by a turn: atomic against all else, and nothing is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.image_parts import png, showing
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, NewWorker, archive_in, chat, grown, push_all, until_settled
from turnmill import ContextClient, InvalidInput, NoCheckpoint, Policy, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.trajectory import Trajectory

pytestmark = pytest.mark.worker

QUIET = SMALL.model_copy(update={"checkpoint_interval": 0})
"""Without automatic checkpoints."""


@pytest.fixture(scope="module", params=["archive", "no archive"])
def rolling(
    request: pytest.FixtureRequest, store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """A worker with and without an archive."""
    folder = tmp_path_factory.mktemp("rolling")
    env = archive_in(folder) if request.param == "archive" else {}
    with WorkerProcess(store.url, folder, name="rolling", env=env) as running:
        yield running


def _counted(client: ContextClient) -> bool:
    info = client.info("s")
    return info.counted_seq == info.last_seq and info.due_in_s is None


def _states(told: Trajectory) -> Counter[str]:
    return Counter(turn.state for turn in told.turns)


@pytest.mark.usefixtures("rolling")
def test_a_rollback_over_several_compactions_restores_the_context_word_for_word(
    client: ContextClient,
) -> None:
    client.open("s", QUIET, "You carry parcels.")
    push_all(client, "s", chat(100))
    until_settled(client, "s", turns=100)
    client.checkpoint("s", name="here")
    before = client.read("s")
    for at in range(3):
        push_all(client, "s", chat(80, topic=f"letter {at}"))
        until_settled(client, "s", turns=180 + 80 * at)
    assert client.info("s").version > before.version + 1

    result = client.rollback("s", "here")

    after = client.read("s")
    assert after.messages == before.messages
    assert (result.restored, result.seq, result.turns_lost) == ("here", 100, 240)
    told = client.trajectory("s")
    assert [turn.seq for turn in told.turns] == list(range(1, 341))
    assert [turn.state for turn in told.turns] == ["kept"] * 100 + ["rolled-back"] * 240
    assert told.compactions[-1].record.strategy == "rollback"
    assert after.version == result.version == len(told.compactions)


def test_turns_pushed_during_rollbacks_are_rolled_back_or_follow(
    client: ContextClient, new_worker: NewWorker, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        new_worker(name, env=archive_in(tmp_path))
    client.open("s", QUIET.model_copy(update={"keep_checkpoints": 50}))
    ended = threading.Event()
    turns = iter(chat(5_000))
    pushed: list[dict[str, Any]] = []

    def push() -> None:
        while not ended.is_set():
            pushed.append(turn := next(turns))
            client.push("s", turn)

    thread = threading.Thread(target=push)
    thread.start()
    for at in range(8):
        wait_until(lambda: len(pushed) > 40 * (at + 1))  # noqa: B023
        client.checkpoint("s", name=f"mark {at}")
        wait_until(lambda: len(pushed) > 40 * (at + 1) + 25)  # noqa: B023
        result = client.rollback("s", f"mark {at}", timeout_s=30)
        assert result.restored == f"mark {at}"
    ended.set()
    thread.join()

    wait_until(lambda: _counted(client))
    told = client.trajectory("s")
    assert [turn.messages for turn in told.turns] == [(each,) for each in pushed]
    assert set(_states(told)) == {"kept", "rolled-back"}
    kept = [turn.messages[0] for turn in told.turns if turn.state == "kept"]
    tail = client.read("s").messages[-4:]
    assert tail == kept[-4:]
    versions = [each.record.version for each in told.compactions]
    assert versions == list(range(1, client.info("s").version + 1))


@pytest.mark.usefixtures("rolling")
def test_a_version_can_be_restored_until_its_turns_are_set_aside(client: ContextClient) -> None:
    client.open("s", QUIET)
    push_all(client, "s", chat(100))
    until_settled(client, "s", turns=100)
    first = client.info("s").version
    push_all(client, "s", chat(100, topic="letter"))
    until_settled(client, "s", turns=200)
    second = client.info("s").version
    assert second > first > 0

    result = client.rollback("s", first)

    assert result.restored == f"version {first}"
    assert "letter" not in str(client.read("s").messages)
    with pytest.raises(NoCheckpoint, match="rolled back or cleared"):
        client.rollback("s", second)
    assert client.rollback("s", first).restored == f"version {first}"
    client.clear("s")
    with pytest.raises(NoCheckpoint, match="rolled back or cleared"):
        client.rollback("s", first)


@pytest.mark.usefixtures("rolling")
def test_a_demand_of_the_policy_is_looked_at_again_after_a_rollback(client: ContextClient) -> None:
    free = Policy(max_tokens=20_000, checkpoint_interval=0)
    client.open("s", free)
    client.push_many([("s", showing(png(seed))) for seed in range(5)])
    client.checkpoint("s", name="here")
    client.open("s", Policy(**{**free.model_dump(), "max_history_images": 1}))
    wait_until(lambda: client.info("s").images <= 2)

    result = client.rollback("s", "here")

    wait_until(lambda: client.info("s").version > result.version and client.info("s").images <= 2)


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "Street 7."}


@pytest.mark.usefixtures("rolling")
def test_a_turn_that_is_taken_back_leaves_the_session_and_stays_in_the_archive(
    client: ContextClient,
) -> None:
    pushed = chat(3)
    push_all(client, "s", pushed)

    done = client.take_back("s", 3)

    assert (done.seq, done.turns_lost) == (2, 1)
    assert client.read("s").messages == pushed[:2]
    client.push("s", {"role": "user", "content": "Something else."})
    until_settled(client, "s", turns=4)
    told = client.trajectory("s")
    assert [(turn.seq, turn.state) for turn in told.turns] == [
        (1, "kept"),
        (2, "kept"),
        (3, "rolled-back"),
        (4, "kept"),
    ]


@pytest.mark.usefixtures("rolling")
def test_a_turn_that_loses_its_last_message_keeps_its_place(client: ContextClient) -> None:
    client.push("s", {"role": "user", "content": "Where is it?"})
    client.push("s", [ASKED, TOLD])

    client.take_back("s", 2)
    assert client.read("s").messages[1:] == [ASKED]
    client.push("s", {**TOLD, "content": "Street 9."})

    assert client.read("s").messages[1:] == [ASKED, {**TOLD, "content": "Street 9."}]
    assert client.read("s").last_seq == 3


@pytest.mark.usefixtures("rolling")
def test_only_the_newest_turn_is_taken_back_and_nothing_that_a_summary_covers(
    client: ContextClient,
) -> None:
    with pytest.raises(UnknownSession):
        client.take_back("s", 1)
    push_all(client, "s", chat(2))

    with pytest.raises(InvalidInput, match="not the newest"):
        client.take_back("s", 1)
    client.take_back("s", 2)
    client.take_back("s", 1)
    with pytest.raises(NoCheckpoint):
        client.take_back("s", 1)


@pytest.mark.usefixtures("rolling")
def test_a_summary_stays_when_turns_behind_it_are_taken_back(client: ContextClient) -> None:
    grown(client, "s", 80)
    before = client.read("s")
    assert before.summary

    client.take_back("s", 80)

    after = client.read("s")
    assert after.messages == before.messages[:-1]
    assert after.summary == before.summary
    assert after.version == before.version + 1
