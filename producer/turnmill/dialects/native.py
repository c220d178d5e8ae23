"""What a chat message carries of its provider's own shape, in the field ``native``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.contract.fields import wrong_in
from turnmill.contract.turns import unreadable

ANTHROPIC_OPAQUE: Final = frozenset(
    {
        *("thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result"),
        *("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
        *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "container_upload", "compaction"),
    }
)
"""Blocks of an assistant that are carried along as they are."""

ANTHROPIC_SHOWN: Final = frozenset(
    {"image", "document", "search_result", "container_upload", "tool_reference"}
)
ANTHROPIC_BLOCKS: Final = ANTHROPIC_OPAQUE | ANTHROPIC_SHOWN | {"tool_use", "tool_result"}
"""Blocks that no other dialect has."""

RESPONSES_OPAQUE: Final = frozenset(
    {
        *("reasoning", "compaction", "compaction_summary", "item_reference", "web_search_call"),
        *("file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_call"),
        *("tool_search_output", "additional_tools", "configuration_update", "compaction_trigger"),
        *("program", "program_output"),
    }
)
"""Items that need no other item: they are carried along as they are."""

RESPONSES_CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that an agent answers, and the type of the item that does."""

RESPONSES_RESULTS: Final = frozenset(RESPONSES_CALLS.values())
RESPONSES_ITEMS: Final = RESPONSES_OPAQUE | RESPONSES_RESULTS | RESPONSES_CALLS.keys()
"""Types of items that no other dialect has."""

RESPONSES_PARTS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
"""Types of parts that no other dialect has."""


Dialect = Literal["chat", "anthropic", "responses"]
"""OpenAI Chat Completions, Anthropic Messages, OpenAI Responses."""

NATIVE: Final = "native"

TEXT: Final = "text"
"""In an order of blocks: the next text of the message."""


class Converted(NamedTuple):
    """A conversation in a dialect.

    Attributes:
        messages: as the provider takes them; items in Responses.
        system: text for the provider's own field (``system``, ``instructions``); ``""`` in chat,
            where it is among the messages.
        left_out: what the dialect has no way to say, each kind once.
        begun: reasoning at the end, which a provider takes only before what it led to.
    """

    messages: list[JsonMessage]
    system: str = ""
    left_out: tuple[str, ...] = ()
    begun: tuple[JsonMessage, ...] = ()


def with_native(message: JsonMessage, dialect: Dialect, **kept: Any) -> JsonMessage:
    """A message, a part or a call with what its dialect says beside; the same for nothing."""
    found = {name: value for name, value in kept.items() if value not in (None, False, [], {})}
    return {**message, NATIVE: {"dialect": dialect, **found}} if found else message


def check_fields(value: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Raise ``InvalidTurn`` for a field that is none of these, by its name and place."""
    if said := wrong_in(value, known):
        raise InvalidTurn(f"{where}{said}")


def sendable_name(name: str, dialect: Dialect) -> str:
    """The name of a function in letters that the dialect's providers take; models make up others.

    Chat's servers differ: some take dots and colons.
    """
    unknown = _ODD_IN_CHAT if dialect == "chat" else _ODD
    return unknown.sub("_", name)[:_NAME_CHARS]


_NAME_CHARS: Final = 128
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_ODD_IN_CHAT = re.compile(r"[^a-zA-Z0-9_.:-]")


def said_parts(message: JsonMessage) -> list[JsonMessage]:
    """What an assistant said, as parts: its content, and what chat has fields of its own for."""
    content, refusal, audio = map(message.get, ("content", "refusal", "audio"))
    parts = list(content) if isinstance(content, list) else []
    if isinstance(content, str) and content:
        parts.append({"type": "text", "text": content})
    if message.get("function_call"):
        parts.append({"type": "function_call"})
    if isinstance(refusal, str) and refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    if isinstance(audio, Mapping):
        heard = audio.get("transcript")
        is_heard = isinstance(heard, str) and heard
        parts.append({"type": "text", "text": heard} if is_heard else {"type": "audio"})
    return parts


SPOKEN: Final = frozenset({"text", "refusal"})
"""Types of the parts that providers take of an assistant."""


def unshown(kind: object) -> JsonMessage:
    """What stands for a part of this type where it cannot be shown."""
    return {"type": TEXT, "text": f"[{kind}, which cannot be shown here]"}


def fields_of(value: Mapping[str, Any], dialect: Dialect) -> Mapping[str, Any]:
    """The fields that a message, a part or a call has in this dialect beside those of chat."""
    found: Mapping[str, Any] = native_of(value, dialect).get("fields", {})
    return found


def native_of(message: Mapping[str, Any], dialect: Dialect) -> Mapping[str, Any]:
    """What the message carries of this dialect; empty where it carries nothing, or another's."""
    found = message.get(NATIVE)
    is_own = isinstance(found, Mapping) and found.get("dialect") == dialect
    return found if is_own and isinstance(found, Mapping) else {}


def without_native(messages: Sequence[JsonMessage]) -> list[JsonMessage]:
    """The messages without what other dialects say beside; the same where that is nothing."""
    return [_plain(message) for message in messages]


def _plain(message: JsonMessage) -> JsonMessage:
    plain = {name: value for name, value in message.items() if name != NATIVE}
    for field in ("content", "tool_calls"):
        if isinstance(items := plain.get(field), list) and any(NATIVE in item for item in items):
            plain[field] = [{k: v for k, v in item.items() if k != NATIVE} for item in items]
    return plain


def refuse(where: str, kind: object, known: Iterable[str]) -> InvalidTurn:
    """The error for a part that nobody here can read. Names its type, which is no content."""
    return InvalidTurn(f"{where}: {unreadable(kind, known)}")
