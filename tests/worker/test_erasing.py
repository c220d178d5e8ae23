"""What is erased is gone from the files of Redis and of the archive, while agents go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    ROLLING,
    NewServer,
    NewWorker,
    archive_in,
    chat,
    keys_of,
    push_all,
    until_drained,
    until_settled,
    user,
)
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations

pytestmark = pytest.mark.worker

SAID = (
    "From now on, always ring Priscilla Vandergelder at her cottage behind the brewery by noon. "
    "Her card ends in 4471-9902-3318 and her door opens with ember falcon seven nine."
)
"""A rule, a request, facts: all that a compaction keeps word for word."""

CALL = {
    "role": "assistant",
    "content": "I look up Priscilla Vandergelder in the register of the old brewery now.",
    "tool_calls": [
        {
            "id": "call-7",
            "type": "function",
            "function": {
                "name": "look_up",
                "arguments": json.dumps({"who": "Priscilla Vandergelder, cottage behind brewery"}),
            },
        }
    ],
}
RESULT = {
    "role": "tool",
    "tool_call_id": "call-7",
    "content": "Found: the cottage of P. is number twelve on the lane that leads to the mill.",
}


@pytest.fixture
def store(new_server: NewServer) -> EmbeddedRedis:
    """A server for each test, that writes its files as text, so that they can be searched."""
    server = new_server(durable=True)
    with redis.Redis.from_url(server.url) as client:
        client.config_set("rdbcompression", "no")
        client.config_set("aof-use-rdb-preamble", "no")
    return server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workers keep their archive."""
    return tmp_path / "data"


@pytest.fixture
def erasing(new_worker: NewWorker, tmp_path: Path) -> WorkerProcess:
    """A worker with an archive."""
    return new_worker("erasing", pool="threads", concurrency=3, env=archive_in(tmp_path))


def _runs(*texts: str) -> list[bytes]:
    """Five words in a row, wherever they stand in the texts."""
    found = []
    for text in texts:
        words = text.split()
        found += [" ".join(words[at : at + 5]).encode() for at in range(len(words) - 4)]
    return found


def _found(files: Sequence[Path], runs: Sequence[bytes]) -> dict[str, list[bytes]]:
    """By file, which of the runs are in its bytes."""
    bodies = {file.name: file.read_bytes() for file in files}
    found = {name: [run for run in runs if run in body] for name, body in bodies.items()}
    return {name: runs for name, runs in found.items() if runs}


def _redis_files(server: redis.Redis) -> list[Path]:
    """Its dump and its append-only file, both written anew."""
    server.save()
    server.bgrewriteaof()

    def rewritten() -> bool:
        now: Any = server.info("persistence")
        return not now["aof_rewrite_in_progress"] and not now["aof_rewrite_scheduled"]

    wait_until(rewritten)
    there = Path(str(server.config_get("dir")["dir"]))
    return [file for file in there.rglob("*") if file.suffix in (".rdb", ".aof")]


def _archive_files(folder: Path) -> list[Path]:
    return list(folder.glob("archive.db*"))


def _at_rest(server: redis.Redis, client: ContextClient) -> None:
    until_settled(client, "s")
    until_drained(server, client, "s")


@contextmanager
def _agent(client: ContextClient, session: str) -> Iterator[list[dict[str, Any]]]:
    """An agent that pushes and reads while the block runs; what it pushed."""
    pushed: list[dict[str, Any]] = []
    ended = threading.Event()
    failures: list[str] = []

    def work() -> None:
        for message in chat(4_000, topic="letter"):
            if ended.is_set():
                return
            client.push(session, message)
            pushed.append(message)
            failures.extend(violations(client.read(session).messages))
            ended.wait(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield pushed
    finally:
        ended.set()
        thread.join(timeout=30)
    assert failures == []


@pytest.mark.usefixtures("erasing")
def test_no_five_words_of_what_is_erased_are_in_any_file_while_an_agent_goes_on(
    client: ContextClient, server: redis.Redis, folder: Path
) -> None:
    client.open("s", ROLLING, "You carry parcels.")
    push_all(client, "s", chat(20))
    push_all(client, "s", [{"role": "user", "content": SAID, "name": "priscilla"}, CALL, RESULT])
    push_all(client, "s", chat(80, topic="crate"))
    client.checkpoint("s", "what Priscilla Vandergelder said at the cottage", name="told")
    _at_rest(server, client)
    before = client.read("s")
    runs = _runs(SAID, str(CALL["content"]), str(RESULT["content"]))
    assert "Priscilla" in json.dumps(before.messages)
    assert _found(_redis_files(server), runs)
    assert _found(_archive_files(folder), runs)

    with _agent(client, "s") as pushed:
        wait_until(lambda: len(pushed) > 20)
        told = client.erase("s", turns=(21, 22, 23), by="the keeper", timeout_s=60)
        length = len(pushed)
        wait_until(lambda: len(pushed) > length + 40, within_s=60)

    assert told.turns == (21, 22, 23)
    assert told.remade
    assert told.rewritten
    assert told.checkpoints >= 1
    _at_rest(server, client)
    assert _found([*_redis_files(server), *_archive_files(folder)], runs) == {}
    whole = client.trajectory("s")
    assert [turn.seq for turn in whole.turns] == list(range(1, 103 + len(pushed) + 1))
    assert {turn.state for turn in whole.turns} == {"kept"}
    assert [t.messages[0] for t in whole.turns if t.seq > 103] == pushed
    assert [t.messages[0] for t in whole.turns if t.seq <= 20] == chat(20)
    after = client.read("s")
    assert violations(after.messages) == []
    assert "Priscilla" not in json.dumps(after.messages)
    assert "parcel 3" in json.dumps([m["content"] for t in whole.turns for m in t.messages])
    assert after.watermark > 23, "the context was made anew"


def test_without_an_archive_words_are_erased_from_redis(
    client: ContextClient, server: redis.Redis, new_worker: NewWorker
) -> None:
    new_worker("erasing")
    client.open("s", ROLLING)
    push_all(client, "s", [user(SAID), *chat(100)])
    until_settled(client, "s", turns=101)

    told = client.erase("s", turns=[1], timeout_s=60)

    assert (told.turns, told.rewritten) == ((1,), None)
    until_settled(client, "s", turns=101)
    assert _found(_redis_files(server), _runs(SAID)) == {}


def test_a_session_that_only_the_archive_has_is_erased_there(
    client: ContextClient, server: redis.Redis, erasing: WorkerProcess, folder: Path
) -> None:
    client.open("s", ROLLING)
    push_all(client, "s", [user(SAID), *chat(100)])
    _at_rest(server, client)
    server.delete(*keys_of(client, "s").owned)  # as when its lifetime is over

    told = client.erase("s", matching="ember falcon", timeout_s=60)

    assert (told.turns, told.remade) == ((1,), False)
    assert told.contexts >= 1
    erasing.stop()
    assert _found(_archive_files(folder), _runs(SAID)) == {}


# Which turns are erased, what goes with them, and what is told of it


@pytest.mark.usefixtures("erasing")
def test_what_changes_a_rule_goes_with_its_turn_and_the_rule_stays_unmarked(
    client: ContextClient, server: redis.Redis
) -> None:
    client.open("s", ROLLING)
    rule, newer = "Never book hotels above 200 euros.", "Make that 260 euros instead of 200."
    push_all(client, "s", [user("Hello."), *chat(9)])
    push_all(client, "s", [user(rule), user(newer), *chat(60, topic="crate")])
    _at_rest(server, client)
    assert [(each.text, each.revised) for each in client.rules("s")][:1] == [(rule, 12)]

    client.erase("s", turns=[12], timeout_s=60)

    _at_rest(server, client)
    assert [(each.text, each.revised) for each in client.rules("s")][:1] == [(rule, None)]
    assert "260 euros" not in str(client.read("s").messages)


@pytest.mark.usefixtures("erasing")
def test_no_memory_is_found_of_what_was_erased(client: ContextClient, server: redis.Redis) -> None:
    client.open("s", ROLLING)
    push_all(client, "s", [user(SAID), *chat(100)])
    client.remember(f"It is known that {SAID}")
    client.remember("Otto has a bicycle.")
    _at_rest(server, client)
    asked = "Priscilla Vandergelder cottage brewery"
    assert any("Priscilla" in each.text for each in client.ground(asked, 20).memories)

    told = client.erase("s", turns=[1], timeout_s=60)

    assert told.memories >= 2
    _at_rest(server, client)
    assert not any("Priscilla" in each.text for each in client.ground(asked, 20).memories)
    assert client.ground("Who has a bicycle?").memories[0].text == "Otto has a bicycle."
