"""Taking the newest message back: the session goes on as if it had not been pushed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat, push_all, settled
from turnmill import ContextClient, InvalidInput, NoCheckpoint, UnknownSession

pytestmark = pytest.mark.worker

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "Street 7."}


@pytest.fixture
def archiving(new_worker: Callable[..., WorkerProcess], tmp_path: Path) -> WorkerProcess:
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(tmp_path / "data")}
    return new_worker("archiving", env=env)


@pytest.mark.usefixtures("archiving")
def test_a_turn_that_is_taken_back_leaves_the_session_and_stays_in_the_archive(
    client: ContextClient,
) -> None:
    pushed = chat(3)
    push_all(client, "s", pushed)

    done = client.take_back("s", 3)

    assert (done.seq, done.turns_lost) == (2, 1)
    assert client.read("s").messages == pushed[:2]
    client.push("s", {"role": "user", "content": "Something else."})
    wait_until(lambda: settled(client, "s", turns=4), what="the gap holds no count up")
    told = client.trajectory("s")
    assert [(turn.seq, turn.state) for turn in told.turns] == [
        (1, "kept"),
        (2, "kept"),
        (3, "rolled-back"),
        (4, "kept"),
    ]


@pytest.mark.usefixtures("worker")
def test_a_turn_that_loses_its_last_message_keeps_its_place(client: ContextClient) -> None:
    client.push("s", {"role": "user", "content": "Where is it?"})
    client.push("s", [ASKED, TOLD])

    client.take_back("s", 2)
    assert client.read("s").messages[1:] == [ASKED]
    client.push("s", {**TOLD, "content": "Street 9."})

    assert client.read("s").messages[1:] == [ASKED, {**TOLD, "content": "Street 9."}]
    assert client.read("s").last_seq == 3


@pytest.mark.usefixtures("worker")
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


@pytest.mark.usefixtures("worker")
def test_a_summary_stays_when_turns_behind_it_are_taken_back(client: ContextClient) -> None:
    client.open("s", SMALL)
    push_all(client, "s", chat(80))
    wait_until(lambda: settled(client, "s", turns=80))
    before = client.read("s")
    assert before.summary

    client.take_back("s", 80)

    after = client.read("s")
    assert after.messages == before.messages[:-1]
    assert after.summary == before.summary
    assert after.version == before.version + 1
