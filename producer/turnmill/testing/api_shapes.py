"""Requests and answers in the shapes of the OpenAI API: Chat Completions, Responses, Models."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import HTTP
from typing import Any, Final

from turnmill.testing.faults import Fault

CREATED: Final = 1_700_000_000
"""A fixed time: answers are the same in every run."""


_PIECE_CHARS: Final = 40


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
        "created": CREATED,
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
        "created_at": CREATED,
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


def events(answer: dict[str, Any]) -> bytes:
    """A completion or a response as a stream, as server-sent events."""
    told: list[dict[str, Any]]
    if answer["object"] == "response":
        parts = [part for item in answer["output"] for part in item.get("content") or ()]
        said = "".join(part.get("text") or "" for part in parts)
        kind = "response.output_text.delta"
        told = [{"type": kind, "delta": piece} for piece in _pieces(said)]
        end = "incomplete" if answer["incomplete_details"] else "completed"
        told.append({"type": f"response.{end}", "response": answer})
    else:
        choice, model = answer["choices"][0], answer["model"]
        message = choice["message"]
        deltas: list[Any] = [{"content": piece} for piece in _pieces(message["content"] or "")]
        if message["refusal"]:
            deltas.append({"refusal": message["refusal"]})
        told = [{"delta": delta, "finish_reason": None} for delta in deltas]
        told.append({"delta": {}, "finish_reason": choice["finish_reason"]})
        told = [{"model": model, "choices": [each]} for each in told]
        told.append({"model": model, "choices": [], "usage": answer["usage"]})
    lines = [f"data: {json.dumps(each)}\n\n" for each in told]
    return "".join([*lines, "data: [DONE]\n\n"]).encode("utf-8", "replace")


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]


def models(names: tuple[str, ...]) -> dict[str, Any]:
    """The list of models."""
    data = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "fake"} for name in names
    ]
    return {"object": "list", "data": data}


def failure(status: int, message: str) -> dict[str, Any]:
    """An error's body."""
    kinds = {401: "invalid_request_error", 404: "model_not_found", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _tokens(reply: Reply) -> int:
    return len(reply.text or reply.refusal) // 4


def _id(kind: str, body: dict[str, Any]) -> str:
    return f"{kind}-{hashlib.blake2b(repr(body).encode('utf-8', 'replace')).hexdigest()[:20]}"


# What was asked


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
