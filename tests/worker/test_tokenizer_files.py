"""Sessions counted with a file's tokenizer: never over the limit, and not lost without the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.tokenizer_files import byte_level, saved
from tests.worker.harness import chat, settled, until_settled
from turnmill import Context, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.tools import count_tools, tools_body
from turnmill_worker.tokens import count_request, counter_for

pytestmark = pytest.mark.worker

OWN = Policy(max_tokens=3_000, encoding="file:own", quality_threshold=0.0)
TOOLS = [
    {
        "name": "find",
        "description": "Find a parcel. " * 8,
        "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
    }
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(byte_level(300), tmp_path_factory.mktemp("tokenizers"), "own")


@pytest.fixture(scope="module", autouse=True)
def worker(
    store: EmbeddedRedis, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    env = {"TURNMILL_TOKENIZER_DIR": str(folder)}
    with WorkerProcess(store.url, tmp_path_factory.mktemp("worker"), env=env) as running:
        yield running


def turns(steps: int) -> list[list[dict[str, Any]]]:
    """A user's questions, with calls and results that hold letters of many alphabets."""
    made: list[list[dict[str, Any]]] = []
    for at, said in enumerate(chat(steps)):
        arguments = json.dumps({"id": f"p-{at}", "größe": "é" * (at % 7)}, ensure_ascii=False)
        function = {"name": "find", "arguments": arguments}
        call = {"id": f"c{at}", "type": "function", "function": function}
        found = f"{at}: 日本 Ελλ \u0958 " + "x7Q-" * (at * 13 % 90)
        made += [
            [{"role": "user", "content": said["content"]}],
            [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{at}", "content": found},
            ],
        ]
    return made


def exact(context: Context, folder: Path) -> int:
    counter = counter_for("file:own", folder=folder)
    return count_request(counter, context.messages) + count_tools(counter.count, tools_body(TOOLS))


def test_no_context_exceeds_the_limit_and_counted_ones_are_exact(
    client: ContextClient, folder: Path
) -> None:
    client.open("s", OWN, "You find parcels.", tools=TOOLS)

    for at, turn in enumerate(turns(40), 1):
        client.push("s", turn)
        read = client.read("s")
        assert exact(read, folder) <= read.tokens <= OWN.hard_limit
        if at % 20 == 0:
            wait_until(partial(settled, client, "s", turns=at), what="settled")

    read = client.read("s")
    assert read.exact
    assert exact(read, folder) == read.tokens
    assert client.info("s").basis.startswith("file:own@")
    assert client.info("s").compactions > 0


def test_a_session_whose_file_is_missing_is_read_meanwhile_and_counted_later(
    client: ContextClient, folder: Path, worker: WorkerProcess
) -> None:
    client.open("s", OWN.model_copy(update={"encoding": "file:late"}), "You find parcels.")
    client.push_many(("s", turn) for turn in turns(20))
    wait_until(lambda: "late.json" in worker.output(), what="the worker's error")

    read = client.read("s")
    assert not read.exact
    assert read.projection is not None
    assert exact(read, folder) <= OWN.hard_limit

    client.push_many(("other", message) for message in chat(4))
    wait_until(lambda: client.info("other").counted_seq == 4, what="the other session counted")
    saved(byte_level(300), folder, "late")
    client.open("s", system_prompt="You find parcels, and you are brief.")
    until_settled(client, "s", turns=40)
    assert client.info("s").total_messages > 0
    assert client.info("s").turns_in_log + client.info("s").turns_covered == 40
