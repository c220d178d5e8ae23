"""Forks and rewinds with a real worker: exact, independent, never amid calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.processes import WorkerProcess
from tests.worker.harness import SMALL, archive_in, chat, push_all, until_drained, until_settled
from turnmill import (
    AsyncContextClient,
    ContextClient,
    InvalidInput,
    NoCheckpoint,
    Turn,
    UnknownSession,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.trajectory import Trajectory

pytestmark = pytest.mark.worker

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": at, "type": "function", "function": {"name": "find", "arguments": "{}"}}
        for at in ("c1", "c2")
    ],
}
WORDS = "the ember falcon opens the door behind the brewery"


@pytest.fixture(scope="module", params=["archive", "no archive"])
def forking(
    request: pytest.FixtureRequest, store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A worker with and without an archive."""
    folder = tmp_path_factory.mktemp("forking")
    env = archive_in(folder) if request.param == "archive" else {}
    with WorkerProcess(store.url, folder, name="forking", env=env):
        yield request.param


def _result(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "found"}


def _kept(told: Trajectory) -> list[object]:
    return [turn.messages for turn in told.turns if turn.state == "kept"]


@pytest.mark.usefixtures("forking")
def test_a_fork_begins_as_the_session_is_and_both_go_on(client: ContextClient) -> None:
    client.open("s", SMALL, "You carry parcels.")
    push_all(client, "s", chat(60))
    until_settled(client, "s")
    before = client.read("s")

    fork = client.manager("s").fork("other")
    at_first = fork.messages()
    client.push("s", {"role": "user", "content": "on the one side"})
    fork.push({"role": "user", "content": "on the other"})

    assert before.version > 0
    assert at_first == before.messages
    assert "on the other" not in str(client.read("s").messages)
    assert "on the one side" not in str(client.read("other").messages)
    assert client.info("other").policy == SMALL
    assert [client.info(each).last_seq for each in ("s", "other")] == [61, 61]


@pytest.mark.usefixtures("forking")
def test_a_fork_goes_on_compacting_and_keeps_what_it_has_when_its_parent_is_forgotten(
    client: ContextClient,
) -> None:
    client.open("s", SMALL)
    said = chat(60)
    push_all(client, "s", said)
    until_settled(client, "s")

    client.fork("s", "other", at=40)
    client.forget("s")
    push_all(client, "other", chat(80, topic="letter"))
    until_settled(client, "other")

    assert client.info("other").version > 1
    assert _kept(client.trajectory("other"))[:40] == [(each,) for each in said[:40]]
    with pytest.raises(UnknownSession):
        client.trajectory("s")


@pytest.mark.usefixtures("forking")
def test_a_point_amid_calls_is_refused_and_the_turns_next_to_it_are_named(
    client: ContextClient,
) -> None:
    for message in (*chat(2), CALL, _result("c1"), _result("c2"), *chat(1)):
        client.push("s", message)

    for amid in (3, 4):
        with pytest.raises(InvalidInput, match=r"after turn 2 or 5$"):
            client.fork("s", "other", at=amid)
    for first in (4, 5):
        with pytest.raises(InvalidInput, match=r"after turn 2 or 5$"):
            client.rewind("s", at=first)
    assert client.fork("s", "other", at=5).seq == 5
    with pytest.raises(InvalidInput, match="there is a session"):
        client.fork("s", "other")


@pytest.mark.usefixtures("forking")
def test_a_fork_of_now_ends_before_calls_that_wait_as_a_sub_agent_needs_it(
    client: ContextClient,
) -> None:
    for message in (*chat(2), CALL, _result("c1")):
        client.push("s", message)

    made = client.fork("s", "other")

    assert made.seq == 2
    assert client.read("other").messages == chat(2)


@pytest.mark.usefixtures("forking")
def test_a_message_is_edited_by_a_rewind_to_it(client: ContextClient) -> None:
    for at, message in enumerate(chat(5)):
        client.push("s", Turn(messages=[message], turn_id=f"t{at}"))

    done = client.rewind("s", at="t2")
    client.push("s", Turn(messages=[{"role": "user", "content": "better"}], turn_id="t2"))

    assert (done.seq, done.turns_lost) == (2, 3)
    assert client.read("s").messages == [*chat(2), {"role": "user", "content": "better"}]
    states = [turn.state for turn in client.trajectory("s").turns]
    assert states == ["kept"] * 2 + ["rolled-back"] * 3 + ["kept"]


@pytest.mark.usefixtures("forking")
def test_a_fork_is_made_of_a_checkpoint_or_a_version(client: ContextClient) -> None:
    client.open("s", SMALL)
    push_all(client, "s", chat(60))
    until_settled(client, "s")
    client.checkpoint("s", name="here")
    there = client.read("s")
    push_all(client, "s", chat(60, topic="letter"))
    until_settled(client, "s")

    client.fork("s", "of-name", at="here")
    client.fork("s", "of-version", at=f"v{there.version}")

    assert client.read("of-name").messages == there.messages
    assert client.read("of-version").summary == there.summary
    assert [each.id for each in client.checkpoints("of-name")][-1] == "here"
    for at in ("nowhere", "v99999999999999999999"):  # no database has such a number
        with pytest.raises(NoCheckpoint):
            client.fork("s", "third", at=at)


@pytest.mark.usefixtures("forking")
def test_what_is_erased_is_erased_in_forks_of_forks_that_share_it(client: ContextClient) -> None:
    push_all(client, "s", [*chat(3), {"role": "user", "content": WORDS}, *chat(30)])
    client.fork("s", "early", at=3)
    client.fork("s", "other", at=20)
    client.fork("other", "third")
    client.push("third", {"role": "user", "content": "its own"})

    done = client.erase("s", matching=WORDS)

    assert set(done.forks) == {"other", "third"}
    for each in ("s", "other", "third"):
        assert WORDS not in str(client.trajectory(each))
        assert WORDS not in str(client.read(each).messages)
    assert _kept(client.trajectory("third"))[-1] == ({"role": "user", "content": "its own"},)


def test_a_fork_shows_images_that_are_stored_once(
    client: ContextClient, store: EmbeddedRedis, forking: str
) -> None:
    client.open("s", SMALL)
    client.push("s", showing(png()))
    push_all(client, "s", chat(60))
    until_settled(client, "s")

    client.fork("s", "other", at=1)
    client.forget("s")

    assert client.read("other").messages == [showing(png())]
    if forking == "archive":
        with redis.Redis.from_url(store.url) as server:
            until_drained(server, client, "other")
        assert "image_url" in str(client.trajectory("other"))


@pytest.mark.usefixtures("forking")
async def test_both_clients_fork_and_rewind(store: EmbeddedRedis, namespace: str) -> None:
    async with AsyncContextClient(store.url, namespace=namespace) as client:
        agent = await client.manager("s")
        for message in chat(4):
            await agent.push(message)

        fork = await agent.fork("other", at=3)
        await fork.rewind(at=2)

        assert await fork.messages() == chat(1)
        assert await agent.messages() == chat(4)
