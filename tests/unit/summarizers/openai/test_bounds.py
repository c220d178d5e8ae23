"""No endpoint holds a thread longer, or makes it read more, than it may."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest
from pydantic import SecretStr

from tests.unit.summarizers.openai.talks import COUNTER, KEY, MODEL, connected, request
from turnmill.testing import FakeEndpoint
from turnmill_worker.errors import SummarizerMisconfigured, SummarizerUnavailable
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.summarizers.openai.endpoint import (
    ModelEndpoint,
    ModelOptions,
    Prompt,
    bounded_client,
    from_chat,
)

GIVEN_UP_S = 15.0
"""A call with half a second to go ends long before; one that nobody ends, never."""

Serve = Callable[[socket.socket, threading.Event], None]


@contextmanager
def raw_server(serve: Serve) -> Iterator[str]:
    """A server below HTTP: what it does with its one connection is the test's matter."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    serve(connection, done)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        done.set()
    thread.join(timeout=10)
    assert not thread.is_alive()


def ask(url: str, *, timeout_s: float = 0.5) -> tuple[str, float]:
    """What is told of a failing call, and how many seconds it took."""
    options = ModelOptions(model=MODEL, timeout_s=timeout_s)
    start = time.perf_counter()
    with (
        ModelEndpoint(api_key=SecretStr(KEY), base_url=url) as endpoint,
        pytest.raises(SummarizerUnavailable) as caught,
    ):
        endpoint.ask(Prompt("Summarize.", "Anna likes tea."), options)
    assert caught.value.__context__ is None
    return str(caught.value), time.perf_counter() - start


def test_what_is_to_be_done_meanwhile_is_done_between_request_and_answer() -> None:
    has_left, is_done = threading.Event(), threading.Event()
    order: list[bool] = []

    def serve(connection: socket.socket, _: threading.Event) -> None:
        connection.recv(1 << 16)
        has_left.set()
        order.append(is_done.wait(5))
        connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    def work() -> None:
        order.append(has_left.wait(5))
        is_done.set()
        raise LookupError("not the endpoint's fault")

    with raw_server(serve) as url, done_while_waiting(work):
        told, _ = ask(url, timeout_s=20)

    assert order == [True, True]
    assert "503" in told


def headers_by_and_by(connection: socket.socket, done: threading.Event) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not done.wait(0.05):
        connection.sendall(b"x")


def waits_by_and_by(connection: socket.socket, done: threading.Event) -> None:
    connection.recv(1 << 16)
    while not done.wait(0.05):
        connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")


def endless_headers(connection: socket.socket, done: threading.Event) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not done.is_set():
        connection.sendall(b"X-More: " + b"x" * 8_000 + b"\r\n")


@pytest.mark.parametrize("serve", [headers_by_and_by, waits_by_and_by])
def test_a_call_ends_in_time_whatever_trickles_in(serve: Serve) -> None:
    with raw_server(serve) as url:
        told, took_s = ask(url)

    assert told == f"{MODEL}: no answer within 0.5 s"
    assert took_s < GIVEN_UP_S


def test_a_body_that_drips_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.testing.endpoint._DRIP_S", 0.02)
    with FakeEndpoint(script=["drip"]) as endpoint:
        told, took_s = ask(endpoint.base_url)

    assert told == f"{MODEL}: no answer within 0.5 s"
    assert took_s < GIVEN_UP_S


def test_headers_without_end_are_given_up() -> None:
    with raw_server(endless_headers) as url:
        told, _ = ask(url, timeout_s=20)

    assert "RemoteProtocolError" in told or "APIConnectionError" in told


def answering(body: bytes, *headers: str) -> Serve:
    def serve(connection: socket.socket, done: threading.Event) -> None:
        connection.recv(1 << 16)
        head = ["HTTP/1.1 200 OK", "Content-Type: application/json", *headers]
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        done.wait(10)

    return serve


def test_a_compressed_answer_nobody_asked_for_is_refused() -> None:
    body = gzip.compress(json.dumps({"choices": "x" * 10**7}).encode())

    with raw_server(answering(body, "Content-Encoding: gzip")) as url:
        told, _ = ask(url, timeout_s=20)

    assert told == f"{MODEL}: APIConnectionError"


def test_an_answer_nested_too_deep_is_none() -> None:
    with raw_server(answering(b'{"choices": ' + b"[" * 200_000)) as url:
        told, _ = ask(url, timeout_s=20)

    assert "not of the API" in told


def test_numbers_no_database_can_hold_are_no_numbers_of_tokens() -> None:
    body = {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10**30, "completion_tokens": -1},
    }

    answer = from_chat(_as_object(body))

    assert (answer.prompt_tokens, answer.completion_tokens) == (0, 0)


def _as_object(value: object) -> object:
    from openai.types.chat import ChatCompletion  # noqa: PLC0415

    return ChatCompletion.construct(**value)  # type: ignore[arg-type]


def test_the_connection_is_used_again_and_each_call_has_its_own_time() -> None:
    with FakeEndpoint(latency_s=0.4) as endpoint:
        summarizer = connected(endpoint, timeout_s=1.0)

        for _ in range(4):
            assert summarizer.summarize(request(), COUNTER).text
        assert len(endpoint.requests) == 4


def test_a_long_prompt_is_sent_whole() -> None:
    with FakeEndpoint() as endpoint:
        said = "Please keep crate 77 where it is. " * 20_000
        with ModelEndpoint(api_key=SecretStr(KEY), base_url=endpoint.base_url) as asked:
            asked.ask(Prompt("Summarize.", said), ModelOptions(model=MODEL))

        assert said in endpoint.requests[0].prompt


def test_proxies_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(headers_by_and_by) as url:
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/v1"))
        told, took_s = ask("http://model.example/v1")

    assert told == f"{MODEL}: no answer within 0.5 s"
    assert took_s < GIVEN_UP_S


def test_a_library_that_cannot_be_bounded_is_not_used() -> None:
    other = httpx2.MockTransport(lambda _: httpx2.Response(200))

    with (
        httpx2.Client(transport=other) as client,
        pytest.raises(SummarizerMisconfigured, match="cannot be bounded"),
    ):
        bounded_client(client)
