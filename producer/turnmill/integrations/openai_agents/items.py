"""Input items as turns, and contexts as input items. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from agents import FunctionTool

from turnmill.dialects.responses_in import to_chat
from turnmill.integrations.beside import function

if TYPE_CHECKING:
    from agents import Tool, TResponseInputItem

    from turnmill.context import Context

__all__ = ["functions_of", "items_of", "turns_of"]

_PLAIN = frozenset({"role", "content"})
_SYSTEM = frozenset({"system", "developer"})


def turns_of(items: Sequence[TResponseInputItem]) -> list[list[dict[str, Any]]]:
    """The items in groups that stay together: a model's output, and what its calls returned.

    So a call stays beside its output, and reasoning beside what it led to.

    Raises:
        InvalidTurn: an item is of no known type or lacks what its type needs; names it.
    """
    typed = [_typed(item) for item in items]
    to_chat(typed)
    turns: list[list[dict[str, Any]]] = []
    for item in typed:
        before = turns[-1][-1] if turns else None
        if before is None or _is_input(item) or (_is_output(item) and not _is_output(before)):
            turns.append([])
        turns[-1].append(item)
    return turns


def functions_of(tools: Sequence[Tool]) -> tuple[dict[str, Any], ...]:
    """The schemas of the functions among the tools."""
    found = (each for each in tools if isinstance(each, FunctionTool))
    return tuple(function(each.name, each.description, each.params_json_schema) for each in found)


def items_of(context: Context) -> list[TResponseInputItem]:
    """The context as input items; what the API has ``instructions`` for comes first."""
    asked = context.request_for("responses")
    first = [{"role": "system", "content": text} for text in [asked.get("instructions")] if text]
    return cast("list[TResponseInputItem]", [*first, *asked["input"]])


def _typed(item: TResponseInputItem) -> dict[str, Any]:
    """The item as a message that says so, where it has more to keep than a chat message would."""
    found = cast("dict[str, Any]", item)
    is_plain = found.keys() <= _PLAIN and found.get("role") not in _SYSTEM
    return found if "type" in found or is_plain else {"type": "message", **found}


def _is_input(item: dict[str, Any]) -> bool:
    return item.get("type", "message") == "message" and item.get("role") != "assistant"


def _is_output(item: dict[str, Any]) -> bool:
    kind = str(item.get("type", "message"))
    return not _is_input(item) and not kind.endswith(("_output", "_response"))
