"""What HTTP asks of workers: memories, forks, going back; and commits as they happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.processes import WorkerProcess
from tests.server.conftest import Serving
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("archiving")]


@pytest.fixture(scope="module")
def archiving(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """A worker with an archive, which memories are in."""
    folder = tmp_path_factory.mktemp("worker")
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    with WorkerProcess(store.url, folder, env=env) as running:
        yield running


async def said(http: httpx.AsyncClient, *texts: str) -> None:
    for text in texts:
        turn = {"messages": [{"role": "user", "content": text}]}
        assert (await http.post("/v1/sessions/s/turns", json=turn)).status_code == 200


async def test_memories_forks_and_going_back(serving: Serving, store: EmbeddedRedis) -> None:
    async with serving(redis=store.url, broker=None) as http:
        await said(http, "The gate's code is 4711.", "And the cat is called Mimi.", "Bye.")
        made = await http.post("/v1/memories", json={"text": "The gate opens at nine."})
        found = await http.get("/v1/memories", params={"query": "gate opens"})
        recalled = await http.post("/v1/sessions/s/recall", json={"query": "the gate opens"})
        quoted = await http.post("/v1/sessions/s/recall", json={"turn": 1})
        neither = await http.post("/v1/sessions/s/recall", json={"limit": 3})
        forked = await http.post("/v1/sessions/s/fork", json={"new_session": "t", "at": 2})
        rewound = await http.post("/v1/sessions/s/rewind", json={"at": 2})
        transcript = await http.get("/v1/sessions/s/transcript")

    assert made.json()["id"]
    assert found.json()["memories"][0]["text"] == "The gate opens at nine."
    assert "The gate opens at nine." in recalled.json()["text"]
    assert "- (turn 1, user) The gate's code is 4711." in quoted.json()["text"]
    assert neither.status_code == 422
    assert "give a query or a turn" in neither.json()["detail"]
    assert (forked.json()["session"], forked.json()["seq"]) == ("t", 2)
    assert rewound.json()["seq"] == 1
    assert "4711" in transcript.json()["text"]


async def test_a_namespace_asks_what_its_own_compactions_saved(
    serving: Serving, store: EmbeddedRedis
) -> None:
    async with serving(redis=store.url, broker=None) as http:
        await said(http, *(f"Turn {at}: {'so it is ' * 80}" for at in range(8)))
        done = (await http.post("/v1/sessions/s/summarize", json={})).json()
        [bill] = (await http.get("/v1/usage", params={"by": "session,model"})).json()
        wrong = await http.get("/v1/usage", params={"by": "weather"})
    async with serving(redis=store.url, broker=None, no_auth="another") as http:
        nothing = await http.get("/v1/usage")

    assert (bill["session"], bill["model"], bill["compactions"]) == ("s", "extractive", 1)
    assert bill["tokens_saved"] == done["tokens_before"] - done["tokens_after"]
    assert (wrong.status_code, wrong.json()["error"]) == (422, "InvalidInput")
    assert nothing.json() == []


async def test_a_commit_is_heard_by_its_own_namespace_and_session(
    serving: Serving, store: EmbeddedRedis, namespace: str
) -> None:
    async def heard(http: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
        async with http.stream("GET", f"/v1/events{query}") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    return found
        raise AssertionError(f"the stream {query} ended")

    async with (
        serving(redis=store.url, broker=None) as http,
        serving(redis=store.url, broker=None, no_auth=f"{namespace}-b") as others,
    ):
        ours = [asyncio.create_task(heard(http, query)) for query in ("", "?session=s")]
        none = [asyncio.create_task(heard(*of)) for of in ((http, "?session=t"), (others,))]
        while not all(task.done() for task in ours):  # the first commits may come before the ears
            await said(http, *(f"Turn {at}: {'so it is ' * 60}" for at in range(8)))
            assert (await http.post("/v1/sessions/s/summarize", json={})).status_code == 200
            await asyncio.wait(ours, timeout=0.3)
        silent = not any(task.done() for task in none)
        for task in none:
            task.cancel()

    assert all(task.result()["session"] == "s" for task in ours)
    assert all(task.result()["tokens_after"] > 0 for task in ours)
    assert silent
