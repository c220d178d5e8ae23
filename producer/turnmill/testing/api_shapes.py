"""Answers in the shapes of the OpenAI API: Chat Completions, Responses, Embeddings, Models."""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from dataclasses import dataclass
from typing import Any, Final

DIMENSIONS: Final = 64
_CREATED: Final = 1_700_000_000
"""A fixed time: answers are the same in every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model wrote.

    Attributes:
        text: None for a refusal.
        refusal: the words it refused with, or ``""``.
        finish: ``stop``, ``length`` or ``content_filter``.
    """

    text: str | None = ""
    refusal: str = ""
    finish: str = "stop"


def chat(body: dict[str, Any], reply: Reply, prompt_tokens: int) -> dict[str, Any]:
    """A chat completion."""
    written = _tokens(reply)
    return {
        "id": _id("chatcmpl", body),
        "object": "chat.completion",
        "created": _CREATED,
        "model": body.get("model"),
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": reply.text,
                    "refusal": reply.refusal or None,
                },
                "finish_reason": reply.finish,
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written,
            "total_tokens": prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


def responses(body: dict[str, Any], reply: Reply, prompt_tokens: int) -> dict[str, Any]:
    """A response of the Responses API."""
    written = _tokens(reply)
    part: dict[str, Any] = {"type": "output_text", "text": reply.text or "", "annotations": []}
    if reply.refusal:
        part = {"type": "refusal", "refusal": reply.refusal}
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(reply.finish)
    status = "incomplete" if reason else "completed"
    return {
        "id": _id("resp", body),
        "object": "response",
        "created_at": _CREATED,
        "model": body.get("model"),
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": [
            {
                "type": "message",
                "id": _id("msg", body),
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt_tokens + written,
        },
    }


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Vectors that are alike where texts share words."""
    asked = body.get("input")
    texts = [asked] if isinstance(asked, str) else list(asked or ())
    data = []
    for place, text in enumerate(texts):
        vector: Any = _vector(str(text))
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": place, "embedding": vector})
    used = sum(len(str(text)) for text in texts) // 4
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {"object": "list", "data": data, "model": body.get("model"), "usage": usage}


def models(names: tuple[str, ...]) -> dict[str, Any]:
    """The list of models."""
    data = [
        {"id": name, "object": "model", "created": _CREATED, "owned_by": "fake"} for name in names
    ]
    return {"object": "list", "data": data}


def failure(status: int, message: str) -> dict[str, Any]:
    """An error's body."""
    kinds = {401: "invalid_request_error", 404: "model_not_found", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _vector(text: str) -> list[float]:
    vector = [1e-3] * DIMENSIONS
    for word in text.lower().split():
        digest = hashlib.blake2b(word.strip(".,;:!?\"'()").encode("utf-8", "replace")).digest()
        vector[digest[0] % DIMENSIONS] += 1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def _tokens(reply: Reply) -> int:
    return len(reply.text or reply.refusal) // 4


def _id(kind: str, body: dict[str, Any]) -> str:
    return f"{kind}-{hashlib.blake2b(repr(body).encode('utf-8', 'replace')).hexdigest()[:20]}"
