"""No endpoint costs more time or text than it may; keys, waits and failures are told by kind."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.unit.summarizers.openai.talks import KEY, MODEL, OPENED
from turnmill.testing import FakeEndpoint, Fault
from turnmill_worker.errors import (
    CircuitOpen,
    RateLimited,
    SummarizerMisconfigured,
    SummarizerUnavailable,
    UnusableSummary,
)
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.summarizers.openai.endpoint import (
    Api,
    GatedEndpoint,
    ModelEndpoint,
    ModelOptions,
    Prompt,
    body_of,
    read_key,
    retry_after_s,
)

# Keys, waits and connections.


def test_a_key_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\n")

    assert read_key(SecretStr(""), file=file).get_secret_value() == KEY
    assert read_key(SecretStr("given"), file=file).get_secret_value() == "given"


def test_a_key_that_is_nowhere_is_a_setting_to_change(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    with pytest.raises(SummarizerMisconfigured, match="no key"):
        read_key(SecretStr(""))
    with pytest.raises(SummarizerMisconfigured, match="is empty"):
        read_key(SecretStr(""), file=empty)
    with pytest.raises(SummarizerMisconfigured, match="FileNotFoundError"):
        read_key(SecretStr(""), file=tmp_path / "none")


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(1_800_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(1_700_000_000, usegmt=True)}, 0.0),
    ],
)
def test_how_long_to_wait_is_read_in_all_its_forms(
    headers: dict[str, str], wait: float | None
) -> None:
    assert retry_after_s(headers, now_s=1_800_000_000.0) == wait


@pytest.mark.parametrize(
    "error",
    [
        SummarizerUnavailable("m: HTTP 429", retry_after_s=3.0),
        SummarizerMisconfigured("m: HTTP 401"),
        UnusableSummary("m: empty", kinds=("empty", "empty")),
    ],
)
def test_errors_survive_the_way_between_processes(error: Exception) -> None:
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


# Every call asks its gate first, and tells it what came of it.

PROMPT = Prompt("Be brief.", "word " * 700)
OPTIONS = ModelOptions(model=MODEL, timeout_s=0.5)


class Gate:
    """Lets through what it is not told to refuse, and keeps what it hears."""

    def __init__(self, refusals: Sequence[Exception] = ()) -> None:
        self.refusals = list(refusals)
        self.heard: list[tuple[Any, ...]] = []
        self.held = 0

    @contextmanager
    def place(self, *, within_s: float) -> Iterator[Callable[[], object]]:
        assert within_s == OPTIONS.timeout_s
        self.held += 1
        try:
            yield lambda: None
        finally:
            self.held -= 1

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        if self.refusals:
            raise self.refusals.pop(0)
        assert within_s == OPTIONS.timeout_s
        assert 1_000 < tokens < 3_000
        return 7

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        self.heard.append(("answered", round_, estimated, used))

    def failed(self, round_: int | None, error: Exception, *, estimated: int) -> None:
        del estimated
        self.heard.append(("failed", round_, type(error).__name__))


def ask(endpoint: FakeEndpoint, gate: Gate) -> list[float]:
    """Ask once; returns what was waited for."""
    waits: list[float] = []
    asked = ModelEndpoint(api_key=SecretStr(KEY), base_url=endpoint.base_url)
    OPENED.append(asked)
    GatedEndpoint(asked, gate, sleep=waits.append).ask(PROMPT, OPTIONS)
    return waits


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("500", "SummarizerUnavailable"),
        ("timeout", "SummarizerUnavailable"),
        ("reset", "SummarizerUnavailable"),
        ("not-openai", "SummarizerUnavailable"),
        ("429", "RateLimited"),
        ("401", "EndpointRefused"),
        ("403", "EndpointRefused"),
        ("404", "EndpointRefused"),
    ],
)
def test_a_failure_of_the_endpoint_is_told_by_its_kind(
    endpoint: FakeEndpoint, fault: Fault, name: str
) -> None:
    gate = Gate()
    endpoint.fail_next(fault)

    with pytest.raises((SummarizerUnavailable, SummarizerMisconfigured)):
        ask(endpoint, gate)

    assert gate.heard == [("failed", 7, name)]
    assert not gate.held


@pytest.mark.parametrize(
    "refusals",
    [
        [CircuitOpen(retry_after_s=0.1)],
        [RateLimited(retry_after_s=2.5)],
        [RateLimited(retry_after_s=1.5), RateLimited(retry_after_s=1.0)],
    ],
)
def test_what_is_not_let_through_is_not_asked(
    endpoint: FakeEndpoint, refusals: list[Exception]
) -> None:
    gate = Gate(refusals)
    with pytest.raises(type(refusals[-1])):
        ask(endpoint, gate)

    assert not gate.held
    assert endpoint.requests == []


# What is sent, in the shape of either API.

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_schema_limit_and_the_conversation_so_far_are_sent_as_the_api_wants_them(
    endpoint: FakeEndpoint, api: Api
) -> None:
    before = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    tools = [{"type": "function", "function": {"name": "look"}}]
    prompt = Prompt("Be brief.", "Sum up.", schema=SCHEMA, limit=300, before=before, tools=tools)
    asked = ModelEndpoint(api_key=SecretStr(KEY), base_url=endpoint.base_url)
    OPENED.append(asked)
    asked.ask(prompt, replace(OPTIONS, api=api, timeout_s=5.0))

    body = endpoint.requests[0].body
    form = {"name": "answer", "strict": True, "schema": SCHEMA}
    assert (body["tools"], body["tool_choice"]) == (tools, "none")
    if api == "chat":
        assert [each["content"] for each in body["messages"]] == [
            *("Be brief.", "Hello.", "Hi.", "Sum up.")
        ]
        assert body["response_format"] == {"type": "json_schema", "json_schema": form}
        assert body["max_completion_tokens"] == body["max_tokens"] == 300 + 1024
    else:
        assert body["instructions"] == "Be brief."
        assert [each["content"] for each in body["input"]] == ["Hello.", "Hi.", "Sum up."]
        assert body["text"] == {"format": {"type": "json_schema", **form}}
        assert body["max_output_tokens"] == 300 + 1024


def test_no_answer_may_be_longer_than_the_options_say() -> None:
    options = replace(OPTIONS, max_output_tokens=200)

    assert body_of(Prompt("a", "b", limit=300), options)["max_completion_tokens"] == 200
    assert body_of(Prompt("a", "b"), options)["max_completion_tokens"] == 200


# No endpoint holds a thread longer, or makes it read more, than it may.

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


def failing_call(url: str, *, timeout_s: float = 0.5) -> tuple[str, float]:
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
        told, _ = failing_call(url, timeout_s=20)

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
        told, took_s = failing_call(url)

    assert told == f"{MODEL}: no answer within 0.5 s"
    assert took_s < GIVEN_UP_S


def test_headers_without_end_are_given_up() -> None:
    with raw_server(endless_headers) as url:
        told, _ = failing_call(url, timeout_s=20)

    assert "RemoteProtocolError" in told or "APIConnectionError" in told


def test_proxies_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(headers_by_and_by) as url:
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/v1"))
        told, took_s = failing_call("http://model.example/v1")

    assert told == f"{MODEL}: no answer within 0.5 s"
    assert took_s < GIVEN_UP_S
