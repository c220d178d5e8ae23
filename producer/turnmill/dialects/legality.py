"""What each provider accepts of a conversation, as its documentation says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turnmill.contract.call_ids import is_valid
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations as of_chat
from turnmill.dialects.native import RESPONSES_CALLS

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def violations(messages: Sequence[JsonMessage], dialect: str) -> list[str]:
    """Why the provider would refuse these messages; empty when it would not. Names no content."""
    if dialect == "anthropic":
        uses = [b for m in messages for b in _blocks(m) if b.get("type") == "tool_use"]
        bad = ["a call's input is no object" for b in uses if not isinstance(b["input"], Mapping)]
        return [*_of_anthropic(messages), *_of_ids([b["id"] for b in uses], dialect), *bad]
    if dialect == "responses":
        ids = [item["call_id"] for item in messages if item.get("type") in RESPONSES_CALLS]
        return [*_of_responses(messages), *_of_ids(ids, dialect)]
    return of_chat(messages)


def _of_ids(ids: Sequence[str], dialect: str) -> Iterator[str]:
    """Each call has an id of its own, of the letters and the length that the provider takes."""
    if len(set(ids)) < len(ids):
        yield f"{len(ids) - len(set(ids))} calls have the id of another"
    if bad := sum(not is_valid(call_id, dialect) for call_id in ids):
        yield f"{bad} ids of calls are too long, or have other letters"


def _of_anthropic(messages: Sequence[JsonMessage]) -> Iterator[str]:
    """Results stand first in the user message right behind their calls, each call has one."""
    if messages and messages[0]["role"] != "user":
        yield "messages[0]: must be the user's"
    asked: list[str] = []
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        kinds = [block.get("type") for block in blocks]
        if not blocks or any(not block.get("text", "-").strip() for block in blocks):
            yield f"messages[{at}]: empty"
        results = [b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"]
        if sorted(results) != sorted(asked):
            yield f"messages[{at}]: its results do not answer the calls before it"
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield f"messages[{at}]: a result stands behind other blocks"
        asked = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        said_by = message["role"]
        if (asked or not _THINKING.isdisjoint(kinds)) and said_by != "assistant":
            yield f"messages[{at}]: calls and thinking are the assistant's"
        if blocks and _THINKING.issuperset(kinds):
            yield f"messages[{at}]: thinking alone"
    if asked and messages[-1]["role"] != "assistant":
        yield "a call has no result"


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _of_responses(items: Sequence[JsonMessage]) -> Iterator[str]:
    """Each call has an output of its kind behind it, each output its call; no reasoning alone."""
    waiting: dict[str, str] = {}
    for at, item in enumerate(items):
        kind, call_id = item.get("type", "message"), str(item.get("call_id", item.get("id")))
        if kind in RESPONSES_CALLS:
            waiting[call_id] = RESPONSES_CALLS[kind]
        elif kind in _OUTPUTS and waiting.pop(call_id, "") != kind:
            yield f"items[{at}]: an output without its call"
        if kind == "reasoning" and not _follows_reasoning(items[at + 1 : at + 2]):
            yield f"items[{at}]: reasoning alone"
    if waiting:
        yield f"{len(waiting)} calls have no output"


_OUTPUTS: Final = frozenset(RESPONSES_CALLS.values())


def _follows_reasoning(items: Sequence[JsonMessage]) -> bool:
    """Whether what a model put out stands here."""
    is_output = all(item.get("role", "assistant") == "assistant" for item in items)
    return bool(items) and is_output and items[0].get("type") not in _OUTPUTS
