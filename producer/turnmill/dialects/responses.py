"""The dialect of OpenAI's Responses API: into chat's shape, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.call_ids import CALL, called
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.contract.fields import (
    PART,
    RESPONSES_CALL,
    RESPONSES_MESSAGE,
    RESPONSES_RESULT,
)
from turnmill.dialects.native import (
    RESPONSES_CALLS,
    RESPONSES_ITEMS,
    RESPONSES_OPAQUE,
    RESPONSES_PARTS,
    RESPONSES_RESULTS,
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

_KNOWN_ITEMS: Final = RESPONSES_ITEMS | {"message"}
_KNOWN_PARTS: Final = RESPONSES_PARTS | {"refusal", "input_audio"}
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_CALL_FIELDS: Final = frozenset({"type", "call_id", "name", "arguments"})
_BESIDE: Final = frozenset({"id", "status"})
_WITH_PARTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def to_chat(items: Sequence[Mapping[str, Any]]) -> list[JsonMessage]:
    """The items as chat messages.

    Raises:
        InvalidTurn: an item or a part is of no known type or lacks what its type needs; names it.
    """
    made: list[JsonMessage] = []
    output = _Output()
    for at, item in enumerate(items):
        where, kind = f"items[{at}]", item.get("type", "message")
        if kind == "message" and item.get("role") == "assistant":
            output.say(item, where)
        elif kind in RESPONSES_CALLS:
            output.call(item, where)
        elif kind in RESPONSES_OPAQUE:
            output.order.append(dict(item))
        else:
            made += output.taken()
            output = _Output()
            made.append(_input(item, kind, where))
    return [*made, *output.taken()]


def _input(item: Mapping[str, Any], kind: object, where: str) -> JsonMessage:
    if kind in RESPONSES_RESULTS:
        return _result(item, where)
    if kind != "message" or "role" not in item:
        raise refuse(where, kind, _KNOWN_ITEMS)
    check_fields(item, RESPONSES_MESSAGE, where)
    message: JsonMessage = {"role": item["role"], "content": _content(item, where)}
    others = {name: value for name, value in item.items() if name not in _MESSAGE_FIELDS}
    return with_native(message, "responses", fields=others)


def _result(item: Mapping[str, Any], where: str) -> JsonMessage:
    # What a local shell gave back is known by the id of its call.
    call_id, output = item.get("call_id", item.get("id")), item.get("output")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidTurn(f"{where}.call_id: an output needs the id of its call")
    check_fields(item, RESPONSES_RESULT, where)
    if item["type"] in _WITH_PARTS and not isinstance(output, str | list):
        got = type(output).__name__
        raise InvalidTurn(f"{where}.output: must be text or a list of parts, got {got}")
    kept = {name: value for name, value in item.items() if name not in {"call_id", "output"}}
    content: Any = output
    if isinstance(output, list) and kept["type"] in _WITH_PARTS:
        content = [_part(part, f"{where}.output[{at}]") for at, part in enumerate(output)]
    elif isinstance(output, Mapping) and isinstance(output.get("image_url"), str):
        content = [{"type": "image_url", "image_url": {"url": output["image_url"]}}]
        kept["screen"] = {name: item for name, item in output.items() if name != "image_url"}
    elif not isinstance(output, str):  # what a shell gave back
        content, kept["is_json"] = encode_json(output).decode(), True
    if "call_id" not in item:
        kept["by_id"] = True
    if kept["type"] == "function_call_output":
        del kept["type"]
    message: JsonMessage = {"role": "tool", "tool_call_id": call_id, "content": content}
    return with_native(message, "responses", fields=kept)


def _content(item: Mapping[str, Any], where: str) -> Any:
    content = item.get("content")
    if not isinstance(content, list):
        return content
    return [_part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]


def _part(part: object, where: str) -> JsonMessage:
    if not isinstance(part, Mapping):
        raise InvalidTurn(f"{where}: must be a part with a type, got {type(part).__name__}")
    check_fields(part, PART, where)
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return _of("text", text, part, {"type", "text"})
        case {"type": "input_image", "image_url": str(url)}:
            image = {"url": url, **({"detail": part["detail"]} if "detail" in part else {})}
            return _of("image_url", image, part, {"type", "image_url", "detail"})
        case {"type": "input_file", "file_data": str(data)}:
            return _of("file", {"file_data": data}, part, {"type", "file_data"})
        case {"type": "refusal" | "input_audio" | "text" | "input_image" | "input_file"}:
            return dict(part)
    raise refuse(where, part.get("type"), _KNOWN_PARTS)


def _of(kind: str, value: Any, part: Mapping[str, Any], said: set[str]) -> JsonMessage:
    others = {name: item for name, item in part.items() if name not in said}
    return with_native({"type": kind, kind: value}, "responses", fields=others)


class _Output:
    """What a model put out in a row, as one assistant message."""

    def __init__(self) -> None:
        self.order: list[Any] = []
        self._parts: list[JsonMessage] = []
        self._calls: list[JsonMessage] = []
        self._plain: list[JsonMessage] = []

    def say(self, item: Mapping[str, Any], where: str) -> None:
        check_fields(item, RESPONSES_MESSAGE, where)
        content = _content(item, where)
        others = {name: value for name, value in item.items() if name not in _MESSAGE_FIELDS}
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        self._parts += parts
        is_text = isinstance(content, str)
        self.order.append({TEXT: len(parts), "fields": others, "is_text": is_text})
        if is_text and not others:
            self._plain.append({"role": "assistant", "content": content})

    def call(self, item: Mapping[str, Any], where: str) -> None:
        call_id, kind = item.get("call_id"), item["type"]
        if not isinstance(call_id, str) or not call_id:
            raise InvalidTurn(f"{where}.call_id: a {kind} needs an id")
        check_fields(item, RESPONSES_CALL, where)
        others = {name: item[name] for name in item.keys() & _BESIDE}
        if kind == "function_call":
            for field in ("name", "arguments"):
                if not isinstance(item.get(field), str):
                    raise InvalidTurn(f"{where}.{field}: a {kind} needs it as a str")
            function = {"name": item["name"], "arguments": item["arguments"]}
            others |= {name: item[name] for name in item.keys() - _CALL_FIELDS}
        else:
            # What it does stands among the arguments, so that it can be read and summarized.
            said = {name: item[name] for name in item.keys() - _CALL_FIELDS - _BESIDE}
            arguments = encode_json(dict(sorted(said.items()))).decode()
            function = {"name": item.get("name") or kind, "arguments": arguments}
            others["type"] = kind
        call = {"id": call_id, "type": "function", "function": function}
        self._calls.append(with_native(call, "responses", fields=others))
        self.order.append(f"{CALL}{call_id}")

    def taken(self) -> list[JsonMessage]:
        """The messages: one, or those that say no more than a chat message does."""
        if len(self._plain) == len(self.order):
            return self._plain
        said: JsonMessage = {"role": "assistant", "content": self._parts or None}
        if self._calls:
            said["tool_calls"] = self._calls
        return [with_native(said, "responses", blocks=self.order)]


_SAID: Final = frozenset({"input", "action", "actions", "operation"})
"""Where calls that are not of functions say what to do; without it, they are none."""

_INPUT_TYPES: Final = frozenset({"refusal", "input_image", "input_file"})


def from_chat(messages: Sequence[JsonMessage]) -> Converted:
    """The items for ``input``, and the text for ``instructions``.

    A reasoning item of which what it led to has left the context, or was shortened so that it is
    another item, goes with it: the API takes none alone. What else the model put out with it is
    said without ids, and its own tools' items not at all: by their ids the API knows that the
    reasoning is missing.
    """
    writer = _Writer()
    for at, message in enumerate(messages):
        writer.add(message, _results(messages, at))
    items: list[JsonMessage] = []
    begun: list[JsonMessage] = []
    for item in reversed(writer.items):
        # Reasoning that was cut off led to nothing.
        if not _is(item, "reasoning") or (items and _is_output(items[-1])):
            items.append(item)
        elif not items:
            begun.append(item)
    system, left_out = "\n\n".join(writer.system), tuple(writer.left_out)
    return Converted(items[::-1], system, left_out, tuple(begun[::-1]))


def told_once(items: Sequence[JsonMessage]) -> Iterator[JsonMessage]:
    """The items, none with the id of an earlier one: the API takes no id twice.

    Frameworks have placeholders for ids, which they take out themselves: those stay.
    """
    seen: set[str] = set()
    for item in items:
        item_id = item.get("id")
        if not isinstance(item_id, str) or not _ID.match(item_id):
            yield item
            continue
        if item_id not in seen:
            yield item
        elif not _is(item, *RESPONSES_OPAQUE):
            # What it says stands without it, but for calls of which it is a part.
            yield item if _is(item, *_KEEP_IDS) else _nameless(item)
        seen.add(item_id)


_ID: Final = re.compile(r"[a-z]+_")


def _nameless(item: JsonMessage) -> JsonMessage:
    """The item without an id: of a message, which else needs one, its text."""
    found = {name: value for name, value in item.items() if name not in _BESIDE}
    parts = item.get("content")
    if _is(item, "message") and all(_is(part, "output_text") for part in parts or ()):
        del found["type"]
        found["content"] = parts if isinstance(parts, str) else _joined(parts)
    return found


_KEEP_IDS: Final = frozenset({"computer_call", "local_shell_call", "local_shell_call_output"})


def _is_output(item: JsonMessage) -> bool:
    is_said = item.get("role", "assistant") == "assistant"
    return is_said and item.get("type") not in RESPONSES_RESULTS


class _Writer:
    """Writes message by message."""

    def __init__(self) -> None:
        self.items: list[JsonMessage] = []
        self.system: list[str] = []
        self.left_out: dict[str, None] = {}
        # Calls of the last batch of which, or of whose result, only a function's may look like it.
        self._as_functions: set[str] = set()

    def add(self, message: JsonMessage, results: Mapping[str, JsonMessage]) -> None:
        """One more message, and the results right behind it."""
        role, content = message["role"], message.get("content")
        native = native_of(message, "responses")
        if role == "tool":
            self.items.append(self._result(message))
        elif role == "assistant":
            self.items += self._said(message, native.get("blocks", ()), results)
        elif role in {"system", "developer"} and not self.items and not native:
            self.system.append(content if isinstance(content, str) else _joined(content))
        else:
            shown = content if isinstance(content, str) else self._parts(content, "input_text")
            self.items.append({"role": role, "content": shown, **fields_of(message, "responses")})

    def _result(self, message: JsonMessage) -> JsonMessage:
        content, call_id = message.get("content"), message["tool_call_id"]
        output: Any = content if isinstance(content, str) else self._parts(content, "input_text")
        if call_id in self._as_functions:
            return {"call_id": call_id, "output": output, "type": "function_call_output"}
        kept = {"type": "function_call_output", **fields_of(message, "responses")}
        if (screen := kept.pop("screen", None)) and isinstance(output, list):
            output = {**screen, "image_url": output[0].get("image_url")}
        if kept.pop("is_json", False):
            output = _parsed(output)
        if kept.pop("by_id", False):
            return {"output": output, **kept, "id": call_id}
        return {"call_id": call_id, "output": output, **kept}

    def _said(
        self, message: JsonMessage, order: Sequence[Any], results: Mapping[str, JsonMessage]
    ) -> Iterator[JsonMessage]:
        content = message.get("content")
        parts = said_parts(message)
        calls = {call["id"]: call for call in message.get("tool_calls") or ()}
        if not order and isinstance(content, str):
            if content:
                yield {"role": "assistant", "content": content}
            parts = parts[1:] if content else parts
        wanted = {one.removeprefix(CALL) for one in order if isinstance(one, str)}
        changed = {
            call_id
            for call_id, call in calls.items()
            if call_id not in wanted or not _keeps_its_kind(call, results.get(call_id))
        }
        reasoned = any(_is(one, "reasoning") for one in order)
        is_apart = reasoned and not wanted <= calls.keys() - changed
        self._as_functions = set(calls) if is_apart else changed
        at = 0
        for one in order:
            if isinstance(one, str):
                if call := calls.pop(one.removeprefix(CALL), None):
                    yield self._call(call)
            elif "is_text" in one:
                own = parts[at : at + one[TEXT]]
                at += one[TEXT]
                fields = {} if is_apart else one["fields"]
                yield from self._message(own, fields, is_text=one["is_text"])
            elif not is_apart or _is(one, "compaction", "compaction_summary"):
                yield one
        yield from self._message(parts[at:], {}, is_text=False)
        yield from map(self._call, calls.values())

    def _call(self, call: Mapping[str, Any]) -> JsonMessage:
        (name, arguments), fields = called(call), fields_of(call, "responses")
        name = sendable_name(name, "responses")
        if call["id"] in self._as_functions:
            fields = {}
        if "type" in fields:
            named = {"name": name} if name != fields["type"] else {}
            return {"call_id": call["id"], **named, **_parsed(arguments), **fields}
        said = {"name": name, "arguments": arguments}
        return {"type": "function_call", "call_id": call["id"], **said, **fields}

    def _message(
        self, parts: Sequence[JsonMessage], fields: Mapping[str, Any], *, is_text: bool
    ) -> Iterator[JsonMessage]:
        parts = [part if _is(part, *SPOKEN) else self._unshown(part.get("type")) for part in parts]
        if parts and (is_text or not fields) and not any(_is(part, "refusal") for part in parts):
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
                return {**self._unshown(kind), "type": text_type}

    def _unshown(self, kind: Any) -> JsonMessage:
        self.left_out[f"parts of type {kind}"] = None
        return unshown(kind)


def _results(messages: Sequence[JsonMessage], at: int) -> dict[str, JsonMessage]:
    """The results right behind a message with calls, by the ids of these."""
    found: dict[str, JsonMessage] = {}
    if messages[at].get("tool_calls"):
        for place in range(at + 1, len(messages)):
            if messages[place]["role"] != "tool":
                break
            found[messages[place]["tool_call_id"]] = messages[place]
    return found


def _keeps_its_kind(call: Mapping[str, Any], result: JsonMessage | None) -> bool:
    """Whether the call, with its result, still says what one of its type must say."""
    kind = fields_of(call, "responses").get("type")
    if kind is None:
        return result is None or "type" not in fields_of(result, "responses")
    said = _parsed(called(call)[1])
    if not (isinstance(said, dict) and said.keys() & _SAID):
        return False
    return result is None or _answers(result, RESPONSES_CALLS[kind])


def _answers(result: JsonMessage, kind: str) -> bool:
    """Whether the result is of this type, with its screen or its JSON where it has one."""
    fields, content = fields_of(result, "responses"), result.get("content")
    if fields.get("type") != kind or (fields.get("is_json") and _parsed(content) is None):
        return False
    return "screen" not in fields or (isinstance(content, list) and _is(content[0], "image_url"))


def _is(value: object, *kinds: str) -> bool:
    return isinstance(value, Mapping) and value.get("type") in kinds


def _parsed(text: Any) -> Any:
    """What the JSON says; None where it is no JSON."""
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _joined(parts: object) -> str:
    found = parts if isinstance(parts, list | tuple) else ()
    texts = (part.get("text", part.get("refusal")) for part in found)
    return "\n".join(text for text in texts if isinstance(text, str))
