"""MCP by the SDK's own client: over a process' pipes, and over HTTP with a key."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents

from tests.processes import WorkerProcess
from tests.server.conftest import Serving
from turnmill import AsyncContextClient
from turnmill.client._async.connection import AsyncConnection
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.server.api_keys import ApiKeys

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def archiving(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    folder = tmp_path_factory.mktemp("worker")
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    with WorkerProcess(store.url, folder, env=env) as running:
        yield running


def text(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def over_pipes(url: str, namespace: str) -> AsyncIterator[Client]:
    env = {**os.environ, "TURNMILL_REDIS_URL": url, "TURNMILL_NAMESPACE": namespace}
    words = ["-m", "turnmill_cli", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=words, env=env)
    async with Client(stdio_client(server)) as client:
        yield client


@asynccontextmanager
async def over_http(url: str, key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


async def look_at_everything(client: Client) -> None:
    """What a model does with the tools."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    made = await client.call_tool("remember", {"text": "The gate opens at nine."})
    recalled = await client.call_tool("recall", {"query": "when the gate opens"})
    within = await client.call_tool("recall", {"query": "gate", "session": "team/ada#1"})
    quoted = await client.call_tool("recall", {"turn": 1, "session": "team/ada#1"})
    nowhere = await client.call_tool("recall", {"turn": 1})
    rules = await client.call_tool("rules", {"session": "team/ada#1"})
    context = await client.call_tool("context", {"session": "team/ada#1"})
    unknown = await client.call_tool("context", {"session": "never"})
    transcript = await client.read_resource("turnmill://sessions/team%2Fada%231/transcript")

    assert tools == {"recall", "remember", "rules", "context"}
    assert text(made)
    assert "The gate opens at nine." in text(recalled)
    assert "The gate opens at nine." in text(within)
    assert "- (turn 1, user) Never send mail." in text(quoted)
    assert text(nowhere) == "recall: name the session of turn 1, too."
    assert text(rules) == "1: Never send mail."
    assert json.loads(text(context))[-1] == {"role": "user", "content": "Never send mail."}
    assert unknown.is_error
    assert "never" in text(unknown)
    [page] = transcript.contents
    assert isinstance(page, TextResourceContents)
    assert "Never send mail." in page.text


@pytest.mark.usefixtures("archiving")
async def test_a_model_recalls_and_remembers_over_pipes(
    store: EmbeddedRedis, namespace: str
) -> None:
    async with AsyncContextClient(store.url, namespace=namespace) as agent:
        await (await agent.manager("team/ada#1")).instruct("Never send mail.")

    async with over_pipes(store.url, namespace) as client:
        await look_at_everything(client)


@pytest.mark.usefixtures("archiving")
async def test_a_model_recalls_and_remembers_over_http_in_its_keys_namespace(
    serving: Serving, store: EmbeddedRedis, namespace: str
) -> None:
    async with AsyncContextClient(store.url, namespace=namespace) as agent:
        await (await agent.manager("team/ada#1")).instruct("Never send mail.")
    keys = ApiKeys(redis := AsyncConnection(store.url, 5.0, None, NotImplemented))
    (mine, _), (theirs, _) = await keys.create(namespace), await keys.create(f"{namespace}-b")
    await redis.close()

    async with serving(redis=store.url, broker=None, no_auth="") as http:
        url = str(http.base_url)
        async with over_http(url, mine) as client:
            await look_at_everything(client)
        async with over_http(url, theirs) as client:
            hidden = await client.call_tool("rules", {"session": "team/ada#1"})
            other = await client.call_tool("recall", {"query": "when the gate opens"})
            with pytest.raises(MCPError):
                await client.read_resource("turnmill://sessions/team%2Fada%231/transcript")
        keyless = await http.post("/mcp", json={})

    assert hidden.is_error
    assert "nothing is remembered" in text(other)
    assert keyless.status_code == 401
