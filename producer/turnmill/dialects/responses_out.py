"""Chat messages as items of the OpenAI Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage
from turnmill.dialects.native import CALL, TEXT, Converted, fields_of, native_of

__all__ = ["from_chat"]

_SAID: Final = frozenset({"input", "action", "actions", "operation"})
"""Where calls that are not of functions say what to do; without it, they are none."""

_INPUT_TYPES: Final = frozenset({"refusal", "input_audio", "input_image", "input_file"})


def from_chat(messages: Sequence[JsonMessage]) -> Converted:
    """The items for ``input``, and the text for ``instructions``.

    A reasoning item of which what it led to has left the context goes with it: the API takes none
    alone.
    """
    writer = _Writer()
    for message in messages:
        writer.add(message)
    return Converted(writer.items, "\n\n".join(writer.system), tuple(writer.left_out))


class _Writer:
    """Writes message by message."""

    def __init__(self) -> None:
        self.items: list[JsonMessage] = []
        self.system: list[str] = []
        self.left_out: dict[str, None] = {}
        # Calls that were shortened so that only a function's may look like it.
        self._as_functions: set[str] = set()

    def add(self, message: JsonMessage) -> None:
        """One more message."""
        role, content = message["role"], message.get("content")
        native = native_of(message, "responses")
        if role == "tool":
            self.items.append(self._result(message))
        elif role == "assistant":
            self.items += self._said(message, native)
        elif role in {"system", "developer"} and not self.items and not native:
            self.system.append(content if isinstance(content, str) else _joined(content))
        else:
            shown = content if isinstance(content, str) else self._parts(content, "input_text")
            self.items.append({"role": role, "content": shown, **fields_of(message, "responses")})

    def _result(self, message: JsonMessage) -> JsonMessage:
        content, call_id = message.get("content"), message["tool_call_id"]
        output: Any = content if isinstance(content, str) else self._parts(content, "input_text")
        kept = {"type": "function_call_output", **fields_of(message, "responses")}
        if (screen := kept.pop("screen", None)) and isinstance(output, list):
            shown = output[0].get("image_url")
            output = {**screen, "image_url": shown} if shown else _joined(output)
        if kept.pop("is_json", False):
            found = _parsed(output)
            output = output if found is None else found
        if call_id in self._as_functions:
            kept = {"type": "function_call_output"}
        by = {} if kept.pop("by_id", False) else {"call_id": call_id}
        return {**by, "output": output, **kept}

    def _said(self, message: JsonMessage, native: Mapping[str, Any]) -> Iterator[JsonMessage]:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        calls = {call["id"]: call for call in message.get("tool_calls") or ()}
        order = native.get("blocks", ())
        if not order and isinstance(content, str):
            if content:
                yield {"role": "assistant", "content": content}
            parts = []
        wanted = [one.removeprefix(CALL) for one in order if isinstance(one, str)]
        is_whole = all(call_id in calls for call_id in wanted)
        at = 0
        for one in order:
            if isinstance(one, str):
                if call := calls.pop(one.removeprefix(CALL), None):
                    yield self._call(call)
            elif "is_text" in one:
                own = parts[at : at + one[TEXT]]
                at += one[TEXT]
                yield from self._message(own, one["fields"], is_text=one["is_text"])
            elif is_whole or one.get("type") != "reasoning":
                yield one
        yield from self._message(parts[at:], {}, is_text=False)
        yield from map(self._call, calls.values())

    def _call(self, call: Mapping[str, Any]) -> JsonMessage:
        function, fields = call.get("function") or {}, fields_of(call, "responses")
        name, arguments = function.get("name") or "unknown", function.get("arguments", "{}")
        found = _parsed(arguments) if "type" in fields else None
        if isinstance(found, dict) and found.keys() & _SAID:
            named = {"name": name} if name != fields["type"] else {}
            return {"call_id": call["id"], **named, **found, **fields}
        if "type" in fields:
            self._as_functions.add(call["id"])
            fields = {}
        said = {"name": name, "arguments": arguments}
        return {"type": "function_call", "call_id": call["id"], **said, **fields}

    def _message(
        self, parts: Sequence[JsonMessage], fields: Mapping[str, Any], *, is_text: bool
    ) -> Iterator[JsonMessage]:
        if parts and (is_text or not fields):
            yield {"role": "assistant", "content": _joined(parts), **fields}
        elif parts:
            content = self._parts(parts, "output_text")
            yield {"type": "message", "role": "assistant", "content": content, **fields}

    def _parts(self, parts: object, text_type: str) -> list[JsonMessage]:
        found = parts if isinstance(parts, list) else []
        return [self._part(part, text_type) for part in found]

    def _part(self, part: JsonMessage, text_type: str) -> JsonMessage:
        others = fields_of(part, "responses")
        match part.get("type"):
            case "text":
                return {"type": text_type, "text": part["text"], **others}
            case "image_url":
                image = part["image_url"]
                detail = {"detail": image.get("detail", "auto")}
                return {"type": "input_image", "image_url": image["url"], **detail, **others}
            case "file" if isinstance(part.get("file"), Mapping):
                return {"type": "input_file", **part["file"], **others}
            case kind if kind in _INPUT_TYPES:
                return part
            case kind:
                self.left_out[f"parts of type {kind}"] = None
                return {"type": text_type, "text": f"[{kind}, which cannot be shown here]"}


def _parsed(text: str) -> Any:
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _joined(parts: object) -> str:
    texts = (part.get("text") for part in (parts if isinstance(parts, list | tuple) else ()))
    return "\n".join(text for text in texts if isinstance(text, str))
