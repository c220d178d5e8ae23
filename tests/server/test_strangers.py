"""Whoever has no key, or sends what never ends, holds up nobody: by HTTP as it is on the wire."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.server.conftest import Serving
from turnmill.server import guard
from turnmill.server import http as protocol

POST = b"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b"Content-Length: 1000\r\n\r\n"


async def answer(client: httpx.AsyncClient, *sent: bytes) -> bytes:
    """All that the server says until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    async with asyncio.timeout(30):
        try:
            for part in sent:
                writer.write(part)
                await writer.drain()
            return await reader.read()
        finally:
            writer.close()


async def test_a_body_is_not_read_before_the_key(serving: Serving) -> None:
    async with serving(no_auth="") as http:
        refused = await answer(http, POST + b"Connection: close\r\n" + BODY)

    assert refused.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HT", POST])
async def test_a_head_that_does_not_come_is_not_awaited(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)

    assert await answer(http, begun) == b""


async def test_a_next_head_is_not_awaited_either_and_a_stream_is(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with http.stream("GET", "/v1/events") as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        told = await answer(http, first, b"GET /heal")
        await asyncio.sleep(0.3)

        assert (await http.get("/healthz")).status_code == 200
        assert not stream.is_closed
    assert told.startswith(b"HTTP/1.1 200 ")


async def test_a_head_without_end_is_not_taken_in(http: httpx.AsyncClient) -> None:
    told = await answer(http, POST, b"X: ", b"x" * protocol.MOST_HEAD_BYTES)

    assert told.endswith(b"The request's head is too long.")


@pytest.mark.parametrize("path", [b"/v1/memories", b"/v1/sessions/s/step", b"/mcp"])
async def test_a_body_that_does_not_come_is_not_awaited(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    monkeypatch.setattr(guard, "BODY_S", 0.2)
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)
    head = POST.replace(b"/v1/memories", path) + b"Accept: application/json\r\n"

    told = await answer(http, head + BODY + b"{")
    assert told.startswith(b"HTTP/1.1 408 ")
    assert path == b"/mcp" or b'"transient":true' in told


async def test_whoever_hangs_up_is_no_error_of_the_server(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
    writer.write(POST.replace(b"memories", b"sessions/s/step") + BODY + b"{")
    await writer.drain()
    writer.close()
    await http.get("/healthz")
    await asyncio.sleep(0.2)

    assert "failed" not in caplog.text
