"""Which messages of the broker a worker takes, and what becomes of the others.

Celery ends a worker that meets a message it did not expect, and puts the message back for the next
one. Whoever can write to the broker could so stop all workers. Here a message is looked at before
Celery does anything with it: it is a hint in the form that clients and workers send, or it is put
aside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MOST_BYTES", "BadMessage", "clean_headers", "look_at"]

MOST_BYTES: Final = 64 * 1024
"""A hint has some 500 bytes: names, and no content."""

_FORMAT: Final = ("application/json", "utf-8")

_WORD = re.compile(r"[!-~]{1,250}\Z")

_OUR_TASK = re.compile(r"turnmill\.[a-z_]{1,40}\Z")

_HEADERS: Final[Mapping[str, tuple[type, ...]]] = {
    "lang": (str,),
    "task": (str,),
    "id": (str,),
    "root_id": (str, type(None)),
    "parent_id": (str, type(None)),
    "origin": (str, type(None)),
    "retries": (int, type(None)),
    "ignore_result": (bool, type(None)),
    # Nothing is sent to be done later: it would wait in the memory of a worker.
    "eta": (type(None),),
    "expires": (type(None),),
    "timelimit": (list, type(None)),
}
"""What a hint's headers may say. Celery acts on others too, and nobody here sends them."""

_NAMES: Final = frozenset({"id", "task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMessage:
    """A message that was put aside, without a word of it: whoever sent it knows its digest.

    Attributes:
        why: what is wrong with it.
        size: the bytes of its body, as far as it has one.
        headers: the types of the headers that a hint has.
    """

    why: str
    queue: str
    size: int
    sha256: str
    headers: str

    @classmethod
    def of(cls, why: str, queue: object, body: object, headers: object) -> BadMessage:
        """What may be said of it."""
        raw = body if isinstance(body, bytes) else str(body or "").encode("utf-8", "replace")
        known = headers if isinstance(headers, Mapping) else {}
        types = [f"{name}:{type(known[name]).__name__}" for name in _HEADERS if name in known]
        return cls(
            why=why,
            queue=queue if isinstance(queue, str) and _WORD.match(queue) else "?",
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
            headers=" ".join(types),
        )


def look_at(message: Any, tasks: Collection[str]) -> str:
    """Why the message is no hint for one of these tasks, or ``""``.

    What it raises for a message that cannot be decoded is a reason too.
    """
    if len(message.body or b"") > MOST_BYTES:
        return "too large"
    if (message.content_type, message.content_encoding) != _FORMAT:
        return "not in JSON"
    if why := _headers_problem(message.headers):
        return why
    if (task := message.headers["task"]) not in tasks:
        # Perhaps of a newer version; anything else may be no name at all.
        return f"unknown task {task}" if _OUR_TASK.match(task) else "unknown task"
    return "" if _is_call(message.payload) else "body is no call"


def clean_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """What of the headers Celery may see, if ``look_at`` found nothing wrong."""
    said = {name: headers[name] for name in _HEADERS if name in headers}
    told = {name: headers.get(name) for name in ("argsrepr", "kwargsrepr")}
    return said | {name: text for name, text in told.items() if isinstance(text, str)}


def _headers_problem(headers: object) -> str:
    if not isinstance(headers, Mapping) or not headers.keys() >= _NAMES:
        return "no task named"
    for name, types in _HEADERS.items():
        value = headers.get(name)
        if name in headers and type(value) not in types:
            return f"header {name}"
        if isinstance(value, str) and not _WORD.match(value):
            return f"header {name}"
    limits = headers.get("timelimit")
    return "header timelimit" if limits and limits != [None, None] else ""


def _is_call(payload: object) -> bool:
    """Whether it is arguments and nothing to do after them, as Celery packs a call."""
    match payload:
        case [list(), dict(), dict() as embedded]:
            return not any(embedded.values())
    return False
