"""A scripted model behind real HTTP: Chat Completions with tools, streamed and whole.

And what the agents of all frameworks are: harbour clerks that look ships up.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JsonMessage = dict[str, Any]

PROMPT = "You are a harbour clerk."


@dataclass(frozen=True)
class Said:
    """What a model says: a text, calls as (id, name, arguments), or both; or that it refuses.

    Arguments may be a text, as models now and then write them.
    """

    text: str = ""
    calls: tuple[tuple[str, str, dict[str, Any] | str], ...] = ()
    refusal: str = ""


class Overflow(Exception):
    """Raised by a script: the model refuses the request as too long."""


@dataclass
class ScriptedModel:
    """Answers each request by the script, which gets its messages; keeps all requests.

    Attributes:
        asked: the models that the requests named.
    """

    script: Callable[[list[JsonMessage]], Said]
    requests: list[list[JsonMessage]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    base_url: str = ""


@contextmanager
def serving(script: Callable[[list[JsonMessage]], Said]) -> Iterator[ScriptedModel]:
    """The model, on a free port of loopback."""
    model = ScriptedModel(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.requests.append(body["messages"])
            model.asked.add(body["model"])
            try:
                said = model.script(body["messages"])
            except Overflow:
                self._send(400, "application/json", _refused())
                return
            if body.get("stream"):
                self._send(200, "text/event-stream", _streamed(said))
            else:
                self._send(200, "application/json", json.dumps(_whole(said)).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with _running(Handler) as model.base_url:
        yield model


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _calls(said: Said) -> list[JsonMessage]:
    return [
        {
            "index": at,
            "id": call_id,
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for at, (call_id, name, given) in enumerate(said.calls)
    ]


_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "scripted"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _whole(said: Said) -> JsonMessage:
    message: JsonMessage = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = _calls(said)
    if said.refusal:
        message["refusal"] = said.refusal
    choice = {"index": 0, "message": message, "finish_reason": _finish(said)}
    return {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _streamed(said: Said) -> bytes:
    deltas: list[JsonMessage] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in said.text.split(" ") if word]
    deltas[2:] = [{"content": f" {delta['content']}"} for delta in deltas[2:]]
    deltas += [{"tool_calls": [call]} for call in _calls(said)]
    choices: list[JsonMessage] = [{"index": 0, "delta": d, "finish_reason": None} for d in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _finish(said)})
    head = {**_HEAD, "object": "chat.completion.chunk"}
    chunks: list[JsonMessage] = [{**head, "choices": [choice]} for choice in choices]
    chunks.append({**head, "choices": [], "usage": _USAGE})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else "stop"


def _refused() -> bytes:
    code = "context_length_exceeded"
    error = {"message": "too long", "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def question(number: int) -> str:
    """One about a ship."""
    return f"Question {number}: where is ship S{number * 71}?"


def lying(ship: str) -> str:
    """What the tool ``find_ship`` returns."""
    return f"pier {int(ship[1:]) % 9} with {ship}: " + "crate of herring, " * 15


def huge(ship: str) -> str:
    """A result that is larger than a turn may be."""
    return f"{ship}: " + "crate of herring, " * 84_000


def clerk(messages: list[JsonMessage]) -> Said:
    """Looks every ship up, and its neighbour, before it answers."""
    newest = text(messages[-1])
    if messages[-1]["role"] != "user":
        return Said(f"It lies at {newest[:40]}, Anna pays by noon.")
    if not newest.endswith("?"):
        return Said("You are welcome.")
    number = int(newest.split()[-1].strip("S?"))
    ships = [f"S{number}", f"S{number + 1}"]
    return Said("", tuple((f"call-{ship}", "find_ship", {"ship": ship}) for ship in ships))


def text(message: JsonMessage) -> str:
    """What a message says, in one text or in parts."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text") or "") for part in parts)


def texts(messages: Sequence[JsonMessage]) -> str:
    """What the messages say."""
    return "\n".join(str(message.get("content")) for message in messages)
