"""Going back in a session, far or by a turn: atomic against all else, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.image_parts import png, showing
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, archive_in, chat, grown, push_all, until_settled
from turnmill import ContextClient, InvalidInput, NoCheckpoint, Policy, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis

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
