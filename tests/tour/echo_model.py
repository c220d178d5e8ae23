"""A model endpoint that only says how many messages it was sent, in three APIs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class EchoModel(BaseHTTPRequestHandler):
    """Answers chat completions, Responses and Anthropic messages."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        sent = request.get("messages", request.get("input"))
        text = f"I was sent {len(sent)} messages"
        if self.path.endswith("/responses"):
            answer = _response(request, text)
        elif "anthropic-version" in self.headers:
            answer = _message(request, text)
        else:
            answer = _completion(request, text)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _completion(request: dict[str, Any], text: str) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text, "refusal": None},
    }
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
    return {**body, "choices": [choice]}


def _message(request: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _response(request: dict[str, Any], text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": request["model"],
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


@contextmanager
def echo_model() -> Iterator[str]:
    """The endpoint's address, without ``/v1``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EchoModel)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
