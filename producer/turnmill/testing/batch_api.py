"""The Batch API: files, and batches of requests in them that are answered later."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from turnmill.testing import api_shapes as shapes
from turnmill.testing.faults import STATUS, Fault
from turnmill.testing.model import write

BatchFault = Literal["ok", "failed", "expired", "cancelled", "no-output", "garbage"] | Fault
"""How one batch ends: with this status, without an output file, with an unreadable one, or with
each of its requests answered by this fault."""

_ENDS: Final = ("failed", "expired", "cancelled")
_CHARS_PER_TOKEN: Final = 4


@dataclass(slots=True)
class _Batch:
    id: str
    input: str
    endpoint: str
    fault: BatchFault
    begun: float = field(default_factory=time.monotonic)
    status: str = "in_progress"
    output: str | None = None
    error: str | None = None
    usage: dict[str, int] | None = None

    @property
    def shape(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "completion_window": "24h",
            "created_at": shapes.CREATED,
            "input_file_id": self.input,
            "status": self.status,
            "output_file_id": self.output,
            "error_file_id": self.error,
            "usage": self.usage,
        }


class Batches:
    """What the endpoint keeps of batches; safe to use from any thread.

    Attributes:
        takes_s: how long a batch is under way; may be changed while it is.
        tells_usage: a finished batch tells the tokens it took, as at OpenAI's endpoint.
        files: contents by id, until they are deleted.
    """

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.tells_usage = True
        self.files: dict[str, str] = {}
        self._batches: dict[str, _Batch] = {}
        self._next: deque[BatchFault] = deque()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def ask(self, *faults: BatchFault) -> None:
        """Let the next batches end with these faults, after those already asked for."""
        with self._lock:
            self._next.extend(faults)

    @property
    def statuses(self) -> list[str]:
        """The status of every batch when it was last looked at, oldest first."""
        return [batch.status for batch in list(self._batches.values())]

    def knows(self, path: str) -> bool:
        """Whether the path is one of the Batch API's."""
        return path.split("/")[1:3] in (["v1", "files"], ["v1", "batches"])

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""
        with self._lock:
            found = self._answer(method, path.split("/")[2:], body)
        if found is None:
            return 404, json.dumps(shapes.failure(404, "no such path, file or batch")).encode()
        return 200, found.encode() if isinstance(found, str) else json.dumps(found).encode()

    def _answer(  # noqa: PLR0911 - one per path
        self, method: str, parts: list[str], body: dict[str, Any]
    ) -> dict[str, Any] | str | None:
        match method, parts:
            case "POST", ["files"]:
                return _file(self._stored(str(body.get("file", ""))))
            case "GET", ["files", name, "content"]:
                return self.files.get(name)
            case "DELETE", ["files", name] if name in self.files:
                del self.files[name]
                return {"id": name, "object": "file", "deleted": True}
            case "POST", ["batches"] if body.get("input_file_id") in self.files:
                return self._created(body).shape
            case "GET", ["batches", name] if name in self._batches:
                return self._advanced(self._batches[name]).shape
            case "POST", ["batches", name, "cancel"] if name in self._batches:
                batch = self._advanced(self._batches[name])
                if batch.status == "in_progress":
                    batch.status = "cancelled"
                return batch.shape
            case _:
                return None

    def _stored(self, content: str) -> str:
        name = f"file-{next(self._ids)}"
        self.files[name] = content
        return name

    def _created(self, body: dict[str, Any]) -> _Batch:
        fault = self._next.popleft() if self._next else "ok"
        batch = _Batch(
            f"batch_{next(self._ids)}", str(body["input_file_id"]), str(body["endpoint"]), fault
        )
        self._batches[batch.id] = batch
        return batch

    def _advanced(self, batch: _Batch) -> _Batch:
        """The batch, done when its time has come."""
        late = time.monotonic() - batch.begun >= self.takes_s
        if batch.status != "in_progress" or not late:
            return batch
        batch.status = batch.fault if batch.fault in _ENDS else "completed"
        if batch.status != "completed":
            return batch
        if batch.fault == "garbage":
            batch.output = self._stored("a page of a proxy")
        elif batch.fault == "no-output":
            batch.error = self._stored("{}")
        else:
            lines = self.files.get(batch.input, "").split("\n")
            done = [_line(json.loads(line), batch.fault) for line in lines if line]
            batch.output = self._stored("\n".join(json.dumps(line) for line in done))
            batch.usage = _usage(done) if self.tells_usage else None
        return batch


def answered(recorded: shapes.Recorded) -> dict[str, Any]:
    """The model's answer to a request, in the shape of its API."""
    reply = write(recorded.body, recorded.prompt, recorded.fault)
    used = len(recorded.prompt) // _CHARS_PER_TOKEN
    shape = shapes.responses if recorded.path == "/v1/responses" else shapes.chat
    return shape(recorded.body, reply, used)


def _line(request: dict[str, Any], fault: Any) -> dict[str, Any]:
    """One line of an output file."""
    status = STATUS.get(fault, 200)
    if status == 200:  # noqa: PLR2004
        body = answered(
            shapes.Recorded(path=request["url"], body=request["body"], key="", fault=fault)
        )
    else:
        body = shapes.failure(status, "refused")
    response = {"status_code": status, "request_id": "req_fake", "body": body}
    return {"id": "1", "custom_id": request["custom_id"], "response": response, "error": None}


def _usage(lines: list[dict[str, Any]]) -> dict[str, int]:
    """The answers' total usage, in the names of the Responses API, as a batch tells it."""
    told = [line["response"]["body"].get("usage") or {} for line in lines]
    sums = {
        to: sum(each.get(to) or each.get(name) or 0 for each in told)
        for to, name in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    }
    return {**sums, "total_tokens": sum(sums.values())}


def _file(name: str) -> dict[str, Any]:
    about = {"filename": "turnmill.jsonl", "purpose": "batch", "status": "processed"}
    return {"id": name, "object": "file", "bytes": 0, "created_at": shapes.CREATED, **about}
