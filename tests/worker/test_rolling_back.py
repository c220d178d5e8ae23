"""Rolling back in a running system: atomic against compactions and pushes, and nothing is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.proxy import Proxy, Trap
from tests.image_parts import png, showing
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    ROLLING,
    SMALL,
    Events,
    chat,
    push_all,
    settled,
)
from turnmill import ContextClient, NoCheckpoint, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.trajectory import Trajectory

pytestmark = pytest.mark.worker

QUIET = SMALL.model_copy(update={"checkpoint_interval": 0})
"""Without automatic checkpoints."""


@pytest.fixture(params=["archive", "no archive"])
def rolling(
    request: pytest.FixtureRequest, new_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> WorkerProcess:
    """A worker with and without an archive."""
    return new_worker("rolling", env=_env(tmp_path) if request.param == "archive" else {})


def _env(folder: Path) -> dict[str, str]:
    return {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}


def _push(client: ContextClient, turns: Iterable[dict[str, Any]]) -> None:
    push_all(client, "s", turns)


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
    _push(client, chat(100))
    wait_until(lambda: settled(client, "s", turns=100))
    client.checkpoint("s", name="here")
    before = client.read("s")
    for at in range(3):
        _push(client, chat(80, topic=f"letter {at}"))
        wait_until(_counted_at(client, 180 + 80 * at))
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


def _counted_at(client: ContextClient, turns: int) -> Callable[[], bool]:
    return lambda: settled(client, "s", turns=turns)


@pytest.mark.usefixtures("rolling")
def test_a_rolled_back_turn_may_be_pushed_again_and_others_not(client: ContextClient) -> None:
    client.open("s", QUIET)
    first = client.push("s", {"role": "user", "content": "one"}, turn_id="one")
    client.checkpoint("s", name="here")
    client.push("s", {"role": "user", "content": "two"}, turn_id="two")

    client.rollback("s")

    again = client.push("s", {"role": "user", "content": "two"}, turn_id="two")
    assert (again.seq, again.duplicate) == (3, False)
    assert client.push("s", {"role": "user", "content": "one"}, turn_id="one").seq == first.seq
    assert [m["content"] for m in client.read("s").messages] == ["one", "two"]


def test_a_compaction_under_way_is_refused_after_a_rollback(
    client: ContextClient,
    store: EmbeddedRedis,
    front: Proxy,
    new_worker: Callable[..., WorkerProcess],
) -> None:
    new_worker("rolling", queues="estimate,compact")
    client.open("s", ROLLING)
    client.push("s", {"role": "user", "content": "Before."})
    client.checkpoint("s", name="here")
    with Events(store.url) as events:
        push_all(client, "s", chat(100))
        commit = front.set(Trap("commit", "freeze"))
        new_worker("compacting", queues="summarize", env={"TURNMILL_REDIS_URL": front.url})
        assert commit.sprung.wait(180)
        try:
            result = client.rollback("s", "here", timeout_s=30)
        finally:
            commit.released.set()

        wait_until(lambda: "stale" in events.outcomes("s"), within_s=60)
    assert result.version == 1
    assert client.read("s").messages == [{"role": "user", "content": "Before."}]
    wait_until(lambda: _counted(client))
    assert client.info("s").version == 1


def test_turns_pushed_during_rollbacks_are_rolled_back_or_follow(
    client: ContextClient, new_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        new_worker(name, env=_env(tmp_path))
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
    _push(client, chat(100))
    wait_until(lambda: settled(client, "s", turns=100))
    first = client.info("s").version
    _push(client, chat(100, topic="letter"))
    wait_until(lambda: settled(client, "s", turns=200))
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
def test_a_rolled_back_session_is_compacted_again_when_it_grows(client: ContextClient) -> None:
    client.open("s", QUIET)
    _push(client, chat(30))
    client.checkpoint("s", name="here")
    _push(client, chat(100, topic="letter"))
    wait_until(lambda: settled(client, "s", turns=130))
    client.rollback("s")

    _push(client, chat(100, topic="card"))

    wait_until(lambda: settled(client, "s", turns=230))
    told = client.trajectory("s")
    assert told.compactions[-1].record.strategy != "rollback"
    assert "letter" not in str(told.compactions[-1].context)
    assert client.read("s").tokens <= SMALL.hard_limit


@pytest.mark.usefixtures("rolling")
def test_images_of_restored_turns_are_shown_again(client: ContextClient) -> None:
    images = [png(seed) for seed in range(6)]
    client.open("s", Policy(max_tokens=20_000, max_history_images=1, checkpoint_interval=0))
    client.push_many([("s", showing(data)) for data in images[:2]])
    client.checkpoint("s", name="here")
    before = client.read("s").messages
    client.push_many([("s", showing(data)) for data in images[2:]])
    client.summarize("s")
    wait_until(lambda: _counted(client))

    client.rollback("s", "here")

    assert client.read("s").messages == before


@pytest.mark.usefixtures("rolling")
def test_a_demand_of_the_policy_is_looked_at_again_after_a_rollback(
    client: ContextClient,
) -> None:
    free = Policy(max_tokens=20_000, checkpoint_interval=0)
    client.open("s", free)
    client.push_many([("s", showing(png(seed))) for seed in range(5)])
    client.checkpoint("s", name="here")
    client.open("s", Policy(**{**free.model_dump(), "max_history_images": 1}))
    wait_until(lambda: client.info("s").images <= 2)

    result = client.rollback("s", "here")

    wait_until(lambda: client.info("s").version > result.version and client.info("s").images <= 2)


@pytest.mark.usefixtures("rolling")
def test_a_change_of_policy_just_before_a_rollback_does_not_hinder_it(
    client: ContextClient,
) -> None:
    client.open("s", QUIET)
    _push(client, chat(30))
    client.checkpoint("s", name="here")
    wait_until(lambda: _counted(client))

    client.open("s", QUIET.model_copy(update={"encoding": "cl100k_base"}), "A new prompt.")
    client.rollback("s")

    wait_until(lambda: client.read("s").exact)
    assert len(client.read("s").messages) == 31
