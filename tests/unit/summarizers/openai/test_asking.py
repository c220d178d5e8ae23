"""A model is asked for what its server takes, and listened to while it makes sense."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.unit.summarizers.openai.talks import COUNTER, KEY, MODEL, TALK, request, result
from turnmill.contract.policy import Policy
from turnmill_worker.errors import SummarizerMisconfigured, SummarizerUnavailable
from turnmill_worker.settings import Settings
from turnmill_worker.summarizers.openai.endpoint import (
    OPENAI_URL,
    Api,
    ModelEndpoint,
    ModelOptions,
    Prompt,
)
from turnmill_worker.summarizers.openai.streaming import is_loop
from turnmill_worker.summarizers.openai.summarizer import Connected, OpenAiSummarizer

Body = dict[str, Any]
DOCS = sorted(Path(__file__).parents[4].joinpath("docs").glob("*.md"))
EMPTY: dict[str, Any] = {}
OPTIONS = ModelOptions(model=MODEL, timeout_s=5.0)
PROMPT = Prompt("Be brief.", "word " * 700, schema={"type": "object"}, limit=100)


class Server:
    """Answers with what a test's function sends; keeps the bodies it was sent."""

    def __init__(self, answer: Callable[[Sender, Body], object]) -> None:
        self.answer = answer
        self.bodies: list[Body] = []
        self.gone = threading.Event()


class Sender(BaseHTTPRequestHandler):
    """One connection, and what a test may send over it."""

    protocol_version = "HTTP/1.1"
    answering: Server

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.answering.answer(self, {"path": self.path})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answering.bodies.append(body)
        try:
            self.answering.answer(self, body)
        except OSError:
            self.answering.gone.set()

    def whole(self, told: Any, status: int = 200, kind: str = "application/json") -> None:
        """An answer in one piece."""
        raw = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def refuse(self, message: str, param: str | None = None, status: int = 400) -> None:
        self.whole({"error": {"message": message, "param": param, "code": None}}, status)

    def stream(self, pieces: Iterator[Any], every_s: float = 0.0) -> None:
        """Pieces of text, or whole events, one after the other; nobody says when it ends."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for piece in pieces:
            event = piece if isinstance(piece, dict) else delta(content=piece)
            line = piece if isinstance(piece, bytes) else b"data: " + json.dumps(event).encode()
            self.wfile.write(line + b"\n\n")
            time.sleep(every_s)


def delta(finish: str | None = None, **fields: Any) -> Body:
    return {"model": MODEL, "choices": [{"delta": fields, "finish_reason": finish}]}


def completion(text: str, written: int, reasoned: int = 0, finish: str = "stop") -> Body:
    details = {"reasoning_tokens": reasoned}
    usage = {"prompt_tokens": 50, "completion_tokens": written}
    return {
        "model": MODEL,
        "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "usage": {**usage, "completion_tokens_details": details},
    }


END = (delta("stop"), {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9}})


@contextmanager
def asked(answer: Callable[[Sender, Body], object]) -> Iterator[tuple[ModelEndpoint, Server]]:
    """An endpoint whose server answers so."""
    server = Server(answer)
    handler = type("Handler", (Sender,), {"answering": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{listening.server_port}/v1"
        with ModelEndpoint(api_key=SecretStr(KEY), base_url=url) as endpoint:
            yield endpoint, server
        listening.shutdown()
        thread.join()


# --- The second prompt asks for less.


def test_a_model_of_which_nothing_held_is_asked_for_a_sentence_of_each_message() -> None:
    found = "The depot at 4 Quai du Port stores brass lamps, shades, bulbs, cables and plugs"
    talk = (*TALK[:2], result("c1", f"{found}; stock of lamps: 17, next delivery in March."))
    said = ['{"items": []}', '{"3": "The depot stores 17 lamps; next delivery: March."}']

    def answer(to: Sender, _: Body) -> None:
        to.whole(completion(said[len(server.bodies) - 1], 20))

    with asked(answer) as (endpoint, server):
        summary = OpenAiSummarizer(endpoint, OPTIONS).summarize(request(*talk), COUNTER)

    first, second = (each["messages"][-1]["content"] for each in server.bodies)
    assert first.partition("All marks with")[0] == second.partition("All marks with")[0]
    assert 'exactly these fields: "3".' in second
    assert server.bodies[1]["response_format"]["json_schema"]["schema"]["required"] == ["3"]
    assert summary.text == "- finding: The depot stores 17 lamps; next delivery: March. (#3)"
    assert summary.dropped == {"asked again: no-items": 1}


# --- What a server does not take is left out.


@pytest.mark.parametrize(
    ("name", "said", "api"),
    [
        ("temperature", ("Only the default (1) is supported.", "temperature"), "chat"),
        ("max_tokens", ("Use 'max_completion_tokens' instead.", "max_tokens"), "chat"),
        ("max_tokens", ("'max_tokens' and 'max_completion_tokens' exclude each other",), "chat"),
        ("max_completion_tokens", ("extra fields: max_completion_tokens", None, 422), "chat"),
        ("response_format", ("No support for response format `json_schema`",), "chat"),
        ("stream_options", ("Unknown name stream_options",), "chat"),
        ("text", ("Unsupported", "text.format"), "responses"),
        ("reasoning", ("Unsupported", "reasoning.effort"), "responses"),
    ],
)
def test_what_a_server_refuses_by_name_is_never_sent_again(
    name: str, said: tuple[Any, ...], api: Api
) -> None:
    def answer(sender: Sender, body: Body) -> None:
        if name in body:
            sender.refuse(*said)
        elif api == "chat":
            sender.whole(completion("Tea.", 2))
        else:
            part = {"type": "output_text", "text": "Tea."}
            output = [{"type": "message", "content": [part]}]
            sender.whole({"model": MODEL, "status": "completed", "output": output})

    with asked(answer) as (endpoint, server):
        options = replace(OPTIONS, api=api, reasoning_effort="low")
        assert endpoint.ask(PROMPT, options).text == "Tea."
        assert endpoint.ask(PROMPT, options).text == "Tea."
        batched = endpoint.body(PROMPT, options)

    assert [name in body for body in server.bodies] == [True, False, False]
    assert set(server.bodies[0]) - set(server.bodies[1]) == {name}
    assert name not in batched


def test_a_server_that_does_not_say_what_it_refuses_gets_the_least_from_then_on() -> None:
    def answer(sender: Sender, body: Body) -> None:
        if body.get("stream"):
            sender.refuse("Bad Request")
        else:
            sender.whole(completion("Tea.", 2))

    with asked(answer) as (endpoint, server):
        for _ in range(2):
            assert endpoint.ask(PROMPT, OPTIONS).text == "Tea."

    assert len(server.bodies) == 3
    assert set(server.bodies[1]) == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize(
    "message", ["no", "max_tokens is too large: the context has 4096, and 5000 are in messages"]
)
def test_a_request_that_is_refused_whatever_is_left_out_teaches_nothing(message: str) -> None:
    with asked(lambda sender, _: sender.refuse(message)) as (endpoint, server):
        for _ in range(2):
            with pytest.raises(SummarizerMisconfigured, match="HTTP 400"):
                endpoint.ask(PROMPT, OPTIONS)

    half = len(server.bodies) // 2
    assert server.bodies[0] == server.bodies[half]
    assert all("max_tokens" in b or "max_completion_tokens" in b for b in server.bodies)


def test_openai_itself_is_given_one_limit_and_others_both() -> None:
    other = "http://localhost:11434/v1"
    named = {
        url: {name for name in endpoint.body(PROMPT, OPTIONS) if name.startswith("max_")}
        for url in (OPENAI_URL, other)
        for endpoint in [ModelEndpoint(api_key=SecretStr(KEY), base_url=url)]
    }

    assert named == {
        OPENAI_URL: {"max_completion_tokens"},
        other: {"max_completion_tokens", "max_tokens"},
    }


# --- Reasoning has room of its own.


def reasoning(tokens: int) -> Callable[[Sender, Body], None]:
    """A model that thinks for so many tokens before it says anything."""

    def answer(sender: Sender, body: Body) -> None:
        if (most := body["max_completion_tokens"]) < tokens + 10:
            sender.whole(completion("", most, most, "length"))
        else:
            sender.whole(completion("Tea.", tokens + 10, tokens))

    return answer


def test_reasoning_that_took_the_limit_gets_more_room_and_is_paid_for() -> None:
    with asked(reasoning(3_000)) as (endpoint, server):
        first, second = (endpoint.ask(PROMPT, OPTIONS) for _ in range(2))

    limits = [body["max_completion_tokens"] for body in server.bodies]
    assert limits == [1_124, 4_096, 4_096]
    assert (first.text, second.text) == ("Tea.", "Tea.")
    assert (first.prompt_tokens, first.completion_tokens) == (100, 1_124 + 3_010)
    assert (second.prompt_tokens, second.completion_tokens) == (50, 3_010)


def test_what_does_not_fit_the_most_there_may_be_is_not_asked_again() -> None:
    with asked(reasoning(9_000)) as (endpoint, server):
        answers = [endpoint.ask(PROMPT, OPTIONS) for _ in range(2)]

    assert [answer.finish for answer in answers] == ["length", "length"]
    assert [body["max_completion_tokens"] for body in server.bodies] == [1_124, 4_096, 4_096]


def test_a_model_that_does_not_reason_has_no_room_for_it() -> None:
    with asked(reasoning(0)) as (endpoint, server):
        for _ in range(2):
            endpoint.ask(PROMPT, OPTIONS)

    assert [body["max_completion_tokens"] for body in server.bodies] == [1_124, 100]


@pytest.mark.parametrize("is_stream", [True, False])
def test_what_a_model_thinks_aloud_is_not_part_of_its_answer(*, is_stream: bool) -> None:
    text = "<think>\nThe user likes tea.\n</think>\n\nTea."

    def answer(sender: Sender, _: Body) -> None:
        if is_stream:
            sender.stream(iter([*re.findall(r"\S+\s*", text), *END, b"data: [DONE]"]))
        else:
            sender.whole(completion(text, 9))

    with asked(answer) as (endpoint, _):
        found = endpoint.ask(PROMPT, OPTIONS)

    assert (found.text.strip(), found.finish, found.completion_tokens) == ("Tea.", "stop", 9)
    assert 3 < found.reasoning_tokens < 9


# --- An answer is listened to while it makes sense.


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (lambda: (f"Crate {at} weighs {at * 3} kg. " for at in count()), "length"),
        (lambda: ("The lamp was exchanged again. " for _ in count()), "loop"),
        (lambda: (f'"The lamp was exchanged", [{at}],' for at in count()), "loop"),
        (lambda: (" " for _ in count()), "loop"),
        (lambda: (delta(reasoning_content="Wait, the lamp. \n") for _ in count()), "loop"),
    ],
)  # fmt: skip
def test_an_answer_without_end_is_ended_and_paid_for(
    pieces: Callable[[], Iterator[Any]], why: str
) -> None:
    with asked(lambda sender, _: sender.stream(pieces(), 0.0005)) as (endpoint, server):
        found = endpoint.ask(
            replace(PROMPT, schema=None, limit=700), replace(OPTIONS, max_output_tokens=700)
        )
        assert server.gone.wait(5)

    assert found.finish == why
    assert len(found.text) < 12_000
    assert found.has_usage
    assert found.prompt_tokens > 900
    assert found.completion_tokens > 100


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_texts_that_people_wrote_are_no_loops(file: Path) -> None:
    text = file.read_text()

    assert not any(is_loop(text[:end]) for end in range(500, len(text), 500))


def test_lists_of_what_is_alike_are_no_loops() -> None:
    said = [f"Crate {at} weighs {at * 3} kg and must not be stacked anywhere." for at in range(60)]
    items = [{"kind": "artifact", "text": text, "seqs": [at]} for at, text in enumerate(said)]

    assert not is_loop("\n".join(said))
    assert not is_loop(json.dumps({"items": items}))
    assert not is_loop(json.dumps({"items": items}, indent=2))


def test_a_slow_model_that_goes_on_is_heard_to_its_end() -> None:
    pieces = [f"word {at} " for at in range(12)]

    with asked(lambda s, _: s.stream(iter([*pieces, *END]), 0.15)) as (endpoint, _):
        found = endpoint.ask(PROMPT, replace(OPTIONS, timeout_s=0.5))

    assert found.text == "".join(pieces)
    assert (found.finish, found.completion_tokens) == ("stop", 9)


def test_one_that_goes_on_for_too_long_has_said_enough() -> None:
    forever = (f"word {at} " for at in count())
    begun = time.monotonic()

    with asked(lambda sender, _: sender.stream(forever, 0.1)) as (endpoint, _):
        found = endpoint.ask(PROMPT, replace(OPTIONS, timeout_s=0.3))

    assert found.finish == "length"
    assert found.text.startswith("word 0 word 1 ")
    assert 1.4 < time.monotonic() - begun < 5


@pytest.mark.parametrize("sign", [b": still here", b'data: {"choices": [{"delta": {}}]}'])
def test_silence_is_not_waited_for_whatever_keeps_the_connection_alive(sign: bytes) -> None:
    def answer(sender: Sender, _: Body) -> None:
        sender.stream(iter(["Tea is ", "what she ", *[sign] * 50]), 0.05)

    with (
        asked(answer) as (endpoint, _),
        pytest.raises(SummarizerUnavailable, match=r"no answer within 0\.4 s") as caught,
    ):
        endpoint.ask(PROMPT, replace(OPTIONS, timeout_s=0.4))

    assert caught.value.is_slow
    assert caught.value.spent.prompt_tokens > 900
    assert caught.value.spent.completion_tokens > 0
    assert caught.value.spent.cost_usd is None


def test_what_a_broken_off_answer_took_is_told_with_what_was_spent_before() -> None:
    def answer(sender: Sender, _: Body) -> None:
        if len(server.bodies) == 1:
            sender.whole(completion("", 7))
        else:
            sender.stream(iter(["Tea ", "is ", {"error": {"code": 502}}]))

    with asked(answer) as (endpoint, server), pytest.raises(SummarizerUnavailable) as caught:
        OpenAiSummarizer(endpoint, OPTIONS).summarize(request(), COUNTER)

    assert caught.value.spent.calls == 2
    assert caught.value.spent.completion_tokens == 7 + 2


def test_a_stream_that_ends_in_an_error_is_a_failure() -> None:
    pieces = ["Tea.", {"error": {"message": "overloaded", "code": 502}}]

    with (
        asked(lambda sender, _: sender.stream(iter(pieces))) as (endpoint, _),
        pytest.raises(SummarizerUnavailable) as caught,
    ):
        endpoint.ask(PROMPT, OPTIONS)

    assert not caught.value.is_slow


def test_an_answer_is_whole_though_its_usage_never_comes() -> None:
    def answer(sender: Sender, _: Body) -> None:
        sender.stream(iter(["Tea.", delta("stop")]))

    with asked(answer) as (endpoint, _):
        found = endpoint.ask(PROMPT, OPTIONS)

    assert (found.text, found.finish) == ("Tea.", "stop")


# --- The window, where a server tells it.


@pytest.mark.parametrize(
    ("about", "window"),
    [
        ({"max_model_len": 16_384}, 16_384),
        ({"context_length": 200_000, "max_completion_tokens": 9}, 200_000),
        ({"meta": {"n_ctx_train": 32_768, "n_ctx": 8_192}}, 8_192),
        ({"meta": None, "context_length": None}, 128_000),
        ({"context_window": -1}, 128_000),
    ],
)
def test_the_window_is_what_the_server_tells_unless_it_is_set(
    about: Mapping[str, Any], window: int
) -> None:
    data = [{"id": MODEL, **about}]

    with asked(lambda sender, _: sender.whole({"data": data})) as (endpoint, _):
        assert endpoint.window_tokens("any name") in (window, 0)
    data.append({"id": "another"})
    with asked(lambda sender, _: sender.whole({"data": data})) as (endpoint, _):
        url = str(endpoint._client.base_url)
        given: dict[str, Any] = {"model_url": url, "model_key": SecretStr(KEY)}
        told, own = (
            Connected(Settings(**given, **more), None)
            for more in (EMPTY, {"model_window_tokens": 5_000})
        )
        options = told.summarizer(MODEL, Policy()).setup.options
        assert options.window_tokens == window
        assert options.max_output_tokens == min(4_096, window // 4)
        assert told.summarizer("unknown", Policy()).setup.options.window_tokens == 128_000
        assert own.summarizer(MODEL, Policy()).setup.options.window_tokens == 5_000
        told.close()
        own.close()


@pytest.mark.parametrize("told", [(b"a page", 200), ({"models": 3}, 200), ({}, 404), ({}, 500)])
def test_a_window_that_cannot_be_told_is_no_problem_and_not_looked_for_again(told: Any) -> None:
    looks = []

    def answer(sender: Sender, body: Body) -> None:
        looks.append(body)
        sender.whole(*told)

    with asked(answer) as (endpoint, _):
        assert [endpoint.window_tokens(MODEL) for _ in range(3)] == [0, 0, 0]

    assert len(looks) == 1
