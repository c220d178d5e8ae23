"""Chat messages as messages of the Anthropic API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage
from turnmill.dialects.cache_marks import marked, unmarked, with_last_marks
from turnmill.dialects.native import CALL, NATIVE, TEXT, Converted, fields_of, native_of
from turnmill.dialects.types import ANTHROPIC_BLOCKS

__all__ = ["from_chat"]

_EMPTY: Final = "(empty)"
"""Anthropic takes no empty text."""

_OPENING: Final = "(the conversation opens with the assistant)"
"""Anthropic wants a user's message first."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def from_chat(messages: Sequence[JsonMessage], head: int | None = None) -> Converted:
    """The messages for ``messages``, and the text for ``system``.

    Results of one batch stand in one user message, right behind their calls. Every message keeps
    its place and its shape as more are added, so that a prompt's cache goes on to hit. Of the
    first ``head`` messages the last carries a cache mark, and no other does; None leaves the last
    of those that were pushed.
    """
    writer = _Writer()
    place: tuple[int, int] | None = None
    for at, message in enumerate(messages, 1):
        writer.add(message)
        if at == head and writer.made:
            place = len(writer.made) - 1, len(writer.made[-1]["content"])
    made = with_last_marks(writer.made) if head is None else [*map(unmarked, writer.made)]
    if place:
        made[place[0]] = marked(made[place[0]], place[1])
    if made and made[0]["role"] != "user":
        made.insert(0, {"role": "user", "content": _OPENING})
    return Converted(made, "\n\n".join(writer.system), tuple(writer.left_out))


class _Writer:
    """Writes message by message."""

    def __init__(self) -> None:
        self.made: list[JsonMessage] = []
        self.system: list[str] = []
        self.left_out: dict[str, None] = {}
        self._takes_results = False

    def add(self, message: JsonMessage) -> None:
        """One more message."""
        match message["role"]:
            case "tool":
                self._result(message)
                return
            case "assistant":
                self._said(message)
            case "user":
                self._asked(message)
            case _ if not self.made:
                self.system.append("\n".join(_texts(message.get("content"))))
            case role:
                self._note(f"the role {role}, said as the user's")
                self._asked(message)
        self._takes_results = False

    def _result(self, message: JsonMessage) -> None:
        native = native_of(message, "anthropic")
        block: JsonMessage = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        content = message.get("content")
        if isinstance(content, list):
            block["content"] = [self._block(part) for part in content]
        elif content or not native.get("empty"):
            block["content"] = content or ""
        block |= fields_of(message, "anthropic")
        if self._takes_results:
            self.made[-1]["content"].append(block)
        else:
            self.made.append({"role": "user", "content": [block]})
            self._takes_results = True

    def _asked(self, message: JsonMessage) -> None:
        content = message.get("content")
        native = native_of(message, "anthropic")
        if isinstance(content, str) and not (native.get("joined") and self._takes_results):
            self.made.append({"role": "user", "content": content or _EMPTY})
            return
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        blocks = [self._block(part) for part in parts]
        if native.get("joined") and self._takes_results:
            self.made[-1]["content"] += blocks
        else:
            self.made.append({"role": "user", "content": blocks or _EMPTY})

    def _said(self, message: JsonMessage) -> None:
        content = message.get("content")
        calls = {call["id"]: call for call in message.get("tool_calls") or ()}
        native = native_of(message, "anthropic")
        if isinstance(content, str) and content and not calls and not native:
            self.made.append({"role": "assistant", "content": content})
            return
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        texts = iter([self._block(part) for part in parts if part.get("text") != ""])
        blocks: list[JsonMessage] = []
        for one in native.get("blocks", ()):
            if isinstance(one, Mapping):
                blocks.append(dict(one))
            elif one == TEXT:
                blocks += [text for text in [next(texts, None)] if text is not None]
            elif call := calls.pop(one.removeprefix(CALL), None):
                blocks.append(_call(call))
        blocks += [*texts, *map(_call, calls.values())]
        if all(block["type"] in _THINKING for block in blocks):
            # What was thought about has left the context; Anthropic takes no thoughts alone.
            blocks.append({"type": "text", "text": _EMPTY})
        self.made.append({"role": "assistant", "content": blocks})

    def _block(self, part: JsonMessage) -> JsonMessage:
        others = fields_of(part, "anthropic")
        match part.get("type"):
            case "text" if "source" in others:
                block = {**others, "source": {**others["source"], "data": part["text"]}}
            case "text":
                said = {name: value for name, value in part.items() if name != NATIVE}
                block = {**said, "text": part["text"] or _EMPTY, **others}
            case "image_url":
                block = {"type": "image", "source": _source(part["image_url"]["url"]), **others}
            case "file" if isinstance(part.get("file"), Mapping) and "file_data" in part["file"]:
                block = {"type": "document", "source": _source(part["file"]["file_data"]), **others}
            case "refusal":
                block = {"type": "text", "text": part.get("refusal") or _EMPTY}
            case kind if kind in ANTHROPIC_BLOCKS:
                block = part
            case kind:
                self._note(f"parts of type {kind}")
                block = {"type": "text", "text": f"[{kind}, which cannot be shown here]"}
        return block

    def _note(self, what: str) -> None:
        self.left_out[what] = None


def _source(url: str) -> JsonMessage:
    head = _DATA_URL.match(url)
    if head is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head[1], "data": url[head.end() :]}


def _call(call: Mapping[str, Any]) -> JsonMessage:
    function = call.get("function") or {}
    block = {
        "type": "tool_use",
        "id": call["id"],
        "name": function.get("name") or str(call.get("type")),
        "input": _input(function.get("arguments") or ""),
    }
    return {**block, **fields_of(call, "anthropic")}


def _input(arguments: str) -> JsonMessage:
    """The arguments as an object: Anthropic takes nothing else."""
    try:
        found = decode_json(arguments.encode("utf-8", "surrogatepass")) if arguments else {}
    except ValueError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part.get("text"), str))
