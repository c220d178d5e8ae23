"""The dialect of Anthropic's Messages API: into chat's shape, and back."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.call_ids import CALL, called
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.contract.fields import (
    ANTHROPIC_CALL,
    ANTHROPIC_MESSAGE,
    ANTHROPIC_RESULT,
    MESSAGE,
    PART,
)
from turnmill.dialects.cache_marks import marked, unmarked, with_last_marks
from turnmill.dialects.native import (
    ANTHROPIC_BLOCKS,
    ANTHROPIC_OPAQUE,
    ANTHROPIC_SHOWN,
    SPOKEN,
    TEXT,
    Converted,
    check_fields,
    fields_of,
    native_of,
    refuse,
    said_parts,
    sendable_name,
    unshown,
    with_native,
)

_SAID: Final = ANTHROPIC_OPAQUE | {"text", "tool_use"}
_ASKED: Final = ANTHROPIC_SHOWN | {"text", "tool_result", "image_url", "file"}
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})


def to_chat(message: Mapping[str, Any], where: str = "messages[0]") -> list[JsonMessage]:
    """The message as one or more of the chat API: each result in a message of its own.

    Raises:
        InvalidTurn: a block is of no known type or lacks what its type needs; names it.
    """
    content = message.get("content")
    if not isinstance(content, Sequence) or isinstance(content, str):
        return [dict(message)]
    check_fields(message, MESSAGE | ANTHROPIC_MESSAGE, where)
    blocks = [_block(block, f"{where}.content[{at}]") for at, block in enumerate(content)]
    if message.get("role") == "assistant":
        return [_said(blocks, where)]
    return _asked(message, blocks, where)


def _block(block: object, where: str) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise InvalidTurn(f"{where}: must be a block with a type, got {type(block).__name__}")
    return block


def _said(blocks: Sequence[Mapping[str, Any]], where: str) -> JsonMessage:
    parts: list[JsonMessage] = []
    calls: list[JsonMessage] = []
    order: list[Any] = []
    for at, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                parts.append(_part(block, f"{where}.content[{at}]"))
                order.append(TEXT)
            case "tool_use":
                calls.append(_call(block, f"{where}.content[{at}]"))
                order.append(f"{CALL}{block['id']}")
            case kind if kind in ANTHROPIC_OPAQUE:
                order.append(dict(block))
            case kind:
                raise refuse(f"{where}.content[{at}]", kind, _SAID)
    said: JsonMessage = {"role": "assistant", "content": parts or None}
    if calls:
        said["tool_calls"] = calls
    usual = [TEXT] * len(parts) + [f"{CALL}{call['id']}" for call in calls]
    return said if order == usual else with_native(said, "anthropic", blocks=order)


def _call(block: Mapping[str, Any], where: str) -> JsonMessage:
    for field, kind in (("id", str), ("name", str), ("input", Mapping)):
        if not isinstance(block.get(field), kind):
            raise InvalidTurn(f"{where}.{field}: a tool_use block needs a {kind.__name__}")
    check_fields(block, ANTHROPIC_CALL, where)
    function = {"name": block["name"], "arguments": encode_json(block["input"]).decode()}
    call = {"id": block["id"], "type": "function", "function": function}
    others = {name: value for name, value in block.items() if name not in _CALL_FIELDS}
    return with_native(call, "anthropic", fields=others)


def _asked(
    message: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], where: str
) -> list[JsonMessage]:
    results: list[JsonMessage] = []
    parts: list[JsonMessage] = []
    for at, block in enumerate(blocks):
        place = f"{where}.content[{at}]"
        if block.get("type") == "tool_result":
            results.append(_result(block, place))
        else:
            parts.append(_part(block, place))
    if not parts and results:
        return results
    asked = {**message, "content": parts}
    # What stood beside results in one message stands there again.
    return [*results, with_native(asked, "anthropic", joined=bool(results))]


def _result(block: Mapping[str, Any], where: str) -> JsonMessage:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidTurn(f"{where}.tool_use_id: a tool_result block needs the id of its call")
    check_fields(block, ANTHROPIC_RESULT, where)
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = enumerate(content)
        content = [_part(_block(p, f"{where}[{at}]"), f"{where}.content[{at}]") for at, p in parts]
    others = {name: value for name, value in block.items() if name not in _RESULT_FIELDS}
    result: JsonMessage = {"role": "tool", "tool_call_id": call_id, "content": content or ""}
    return with_native(result, "anthropic", fields=others, empty="content" not in block)


def _part(block: Mapping[str, Any], where: str) -> JsonMessage:
    kind = block.get("type")
    if kind not in _ASKED:
        raise refuse(where, kind, _ASKED)
    check_fields(block, PART, where)
    if kind == "text":
        others = {name: value for name, value in block.items() if name not in {"type", "text"}}
        return with_native({"type": kind, "text": block.get("text")}, "anthropic", fields=others)
    match kind, block.get("source"):
        case "image", {"type": "base64", "media_type": str(media), "data": str(data)}:
            part = _shown(block, "image_url", {"url": f"data:{media};base64,{data}"})
        case "image", {"type": "url", "url": str(url)}:
            part = _shown(block, "image_url", {"url": url})
        case "document", {"type": "base64", "media_type": str(media), "data": str(data)}:
            part = _shown(block, "file", {"file_data": f"data:{media};base64,{data}"})
        case "document", {"type": "text", "data": str(text)}:
            # Its text can be read, and so be summarized.
            kept = {**block, "source": {**block["source"], "data": ""}}
            part = with_native({"type": "text", "text": text}, "anthropic", fields=kept)
        case _:
            part = dict(block)
    return part


def _shown(block: Mapping[str, Any], kind: str, value: JsonMessage) -> JsonMessage:
    others = {name: item for name, item in block.items() if name not in {"type", "source"}}
    part: JsonMessage = {"type": kind, kind: value}
    return with_native(part, "anthropic", fields=others)


_EMPTY: Final = "(empty)"
"""Anthropic takes no empty text, and none of white space alone."""

_TEXT_FIELDS: Final = frozenset({"cache_control", "citations"})
"""What a text has beside in this dialect, also where it was pushed in chat's shape."""

_OPENING: Final = "(the conversation opens with the assistant)"
"""Anthropic wants a user's message first."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[^;,]+)*;base64,")
_PDF_URL: Final = "data:application/pdf;base64,"
_PDF_BEGINS: Final = "JVBERi0"
"""How the data of a file that is no data URL begin if it is a PDF."""

_WEB: Final = ("http://", "https://")
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
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
            self.made.append({"role": "user", "content": _shown_text(content)})
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
        parts = said_parts(message)
        is_text = isinstance(content, str) and bool(content.strip()) and len(parts) == 1
        if is_text and not calls and not native:
            self.made.append({"role": "assistant", "content": content})
            return
        texts = iter([self._spoken(part) for part in parts if part.get("text", True)])
        blocks: list[JsonMessage] = []
        for one in native.get("blocks", ()):
            if isinstance(one, Mapping):
                # A thought without a signature is refused.
                is_taken = one.get("type") != "thinking" or one.get("signature")
                blocks += [dict(one)] if is_taken else []
            elif one == TEXT:
                blocks += [text for text in [next(texts, None)] if text is not None]
            elif call := calls.pop(one.removeprefix(CALL), None):
                blocks.append(_tool_use(call))
        blocks += [*texts, *map(_tool_use, calls.values())]
        if not blocks or blocks[-1]["type"] in _THINKING:
            # It was cut off, or what was thought about has left: Anthropic takes no thought last.
            blocks.append({"type": "text", "text": _EMPTY})
        self.made.append({"role": "assistant", "content": blocks})

    def _block(self, part: JsonMessage) -> JsonMessage:
        others = fields_of(part, "anthropic")
        match part.get("type"):
            case "text" if "source" in others:
                block = {**others, "source": {**others["source"], "data": part["text"]}}
            case "text":
                marks = {name: part[name] for name in _TEXT_FIELDS & part.keys()}
                block = {"type": "text", "text": _shown_text(part["text"]), **marks, **others}
            case "image_url" if source := _picture(part["image_url"]["url"]):
                block = {"type": "image", "source": source, **others}
            case "file" if shown := _document(part.get("file")):
                block = {**shown, **others}
            case "refusal":
                block = {"type": "text", "text": _shown_text(str(part.get("refusal", "")))}
            case kind if kind in ANTHROPIC_BLOCKS:
                block = part
            case kind:
                block = self._unshown(kind)
        return block

    def _spoken(self, part: JsonMessage) -> JsonMessage:
        kind = part.get("type")
        return self._block(part) if kind in SPOKEN else self._unshown(kind)

    def _unshown(self, kind: Any) -> JsonMessage:
        self._note(f"parts of type {kind}")
        return unshown(kind)

    def _note(self, what: str) -> None:
        self.left_out[what] = None


def _shown_text(text: str) -> str:
    return text if text.strip() else _EMPTY


def _document(file: object) -> JsonMessage | None:
    """A file as a block, if it is of a kind that Anthropic takes: a PDF, an image or a text."""
    data = file.get("file_data") if isinstance(file, Mapping) else None
    if not isinstance(file, Mapping) or not isinstance(data, str):
        return None
    source = _source(f"{_PDF_URL}{data}" if data.startswith(_PDF_BEGINS) else data)
    named = {"title": file["filename"]} if file.get("filename") else {}
    match source:
        case {"media_type": media} if media in _IMAGES:
            return {"type": "image", "source": source}
        case {"media_type": str(media)} if media.startswith("text/"):
            try:
                text = base64.b64decode(source["data"]).decode()
            except ValueError:
                return None
            source = {"type": "text", "media_type": "text/plain", "data": text}
        case {"media_type": "application/pdf"}:
            pass
        case {"url": str(url)} if url.startswith(_WEB):
            pass
        case _:
            return None
    return {"type": "document", "source": source, **named}


def _source(url: str) -> JsonMessage:
    head = _DATA_URL.match(url)
    if head is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head[1], "data": url[head.end() :]}


def _picture(url: str) -> JsonMessage | None:
    """The source of an image, if it is of a kind and at a place that Anthropic takes."""
    source = _source(url)
    if source["type"] == "url":
        return source if url.startswith(_WEB) else None
    if source["media_type"] == "image/jpg":  # a common slip
        source["media_type"] = "image/jpeg"
    return source if source["media_type"] in _IMAGES else None


def _tool_use(call: Mapping[str, Any]) -> JsonMessage:
    name, arguments = called(call)
    block = {
        "type": "tool_use",
        "id": call["id"],
        "name": sendable_name(name, "anthropic"),
        "input": _input(arguments),
    }
    return {**block, **fields_of(call, "anthropic")}


_HUGE = re.compile(r"NaN|Infinity|\d[eE]\+?\d{3}")
"""What may be in a text that Python reads as JSON, and no number there."""


def _input(arguments: str) -> JsonMessage:
    """The arguments as an object: Anthropic takes nothing else."""
    try:
        found = decode_json(arguments.encode("utf-8", "surrogatepass")) if arguments else {}
        if _HUGE.search(arguments):
            json.dumps(found, allow_nan=False)
    except ValueError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part.get("text"), str))
