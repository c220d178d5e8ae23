"""A small HTTP server that speaks the embeddings API, and can be told to fail."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Embedding = Callable[[str], list[float]]
TOPICS = {"feline": 0, "cat": 0, "kitten": 0, "boat": 1, "kayak": 1, "canoe": 1, "tea": 2}


def by_topic(text: str) -> list[float]:
    """A vector that counts a text's words by topic: what a model knows and BM25 does not."""
    vector = [0.01, 0.01, 0.01]
    for word in text.lower().replace(".", "").split():
        if word in TOPICS:
            vector[TOPICS[word]] += 1.0
    return vector


@dataclass
class Endpoint:
    """What it answers, and what it was asked: bodies and keys of all requests."""

    url: str
    embedding: Embedding = by_topic
    status: int = 200
    location: str = ""
    body: bytes | None = None
    delay_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    peak: int = 0
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While a request is served: ``peak`` is the most there were at a time."""
        with self._lock:
            self._busy += 1
            self.peak = max(self.peak, self._busy)
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def answer(self, request: dict[str, Any]) -> bytes:
        """The response's body; vectors last first, since order is the index's business."""
        if self.body is not None:
            return self.body
        data = []
        for place, text in enumerate(request["input"]):
            vector: Any = self.embedding(text)
            if request.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            data.append({"object": "embedding", "index": place, "embedding": vector})
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = {"object": "list", "data": data[::-1], "model": request["model"], "usage": usage}
        return json.dumps(answer).encode()


@contextlib.contextmanager
def serving() -> Iterator[Endpoint]:
    """An endpoint on a free port, gone at the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append({"path": self.path, **request})
            endpoint.keys.append(self.headers["Authorization"])
            with endpoint.busy():
                time.sleep(endpoint.delay_s)
            body = endpoint.answer(request)
            with contextlib.suppress(ConnectionError):
                self.send_response(endpoint.status)
                self.send_header("Content-Type", "application/json")
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing: a test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = Endpoint(url=f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
