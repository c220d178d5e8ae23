"""What an endpoint was asked, for a test to look at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

from turnmill.testing.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request.

    Attributes:
        method: such as ``POST``.
        path: such as ``/v1/chat/completions``.
        body: its JSON, or the fields of its form; ``{}`` when it had none.
        key: what came after ``Bearer``, or ``""``.
        fault: how it was answered.
    """

    method: str = "POST"
    path: str
    body: dict[str, Any]
    key: str
    fault: Fault

    @property
    def prompt(self) -> str:
        """All text the model was given."""
        messages = self.body.get("messages") or self.body.get("input") or ()
        if isinstance(messages, str):
            messages = [{"content": messages}]
        texts = [self.body.get("instructions") or "", *(_text(each) for each in messages)]
        return "\n".join(text for text in texts if text)


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def uploaded(content_type: str, raw: bytes) -> dict[str, Any]:
    """The fields of a form with files (RFC 7578), as texts."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    form = message_from_bytes(head + raw, policy=HTTP)
    return {
        str(part.get_param("name", header="Content-Disposition")): _content(part)
        for part in form.iter_parts()
    }


def _content(part: Any) -> str:
    raw: bytes = part.get_payload(decode=True)
    return raw.decode("utf-8", "replace")


class Load:
    """Counts requests that are in flight."""

    def __init__(self) -> None:
        self.now: int = 0
        self.peak: int = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One request is in flight."""
        with self._lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1
