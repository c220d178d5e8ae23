"""A context from turnmill as a history for pydantic-ai. Pure.

A message that turnmill gives back word for word becomes the very object it was made from. So
nothing is lost for which a chat message has no field: thinking, native tools, timestamps, provider
details. Only what turnmill wrote or shortened is made anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelRequest

from turnmill.contract.context import JsonMessage
from turnmill.integrations.pydantic_ai.messages import Chat, from_chat, key

__all__ = ["restore"]

Restored = list[ModelMessage | int]
"""Messages made anew, and positions in the history of those that are as they were."""


def restore(
    history: Sequence[ModelMessage], chat: Chat, context: Sequence[JsonMessage]
) -> Restored:
    """The context as messages of the history and new ones; it ends as the history does."""
    made: Restored = []
    anew: list[JsonMessage] = []
    sources = _sources(chat, context)
    at = 0
    while at < len(context):
        owner = _owner(chat, sources, at)
        if owner is None:
            anew.append(context[at])
            at += 1
            continue
        if anew:
            made += from_chat(anew, chat.names)
            anew = []
        elif made and isinstance(made[-1], int):
            made += _silent(chat, made[-1], owner)
        made.append(owner)
        at += chat.sizes[owner]
    made += _end(history, chat, from_chat(anew, chat.names))
    if chat.prompts and 0 not in made:
        made.insert(0, ModelRequest(parts=list(chat.prompts)))
    return made


def _sources(chat: Chat, context: Sequence[JsonMessage]) -> list[int]:
    """For each context message, the newest chat message it can be, in order; else -1."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(chat.keys):
        places.setdefault(word, []).append(at)
    found: list[int] = []
    before = len(chat.messages)
    for message in reversed(context):
        here = places.get(key(message), [])
        count = bisect_left(here, before)
        before = here[count - 1] if count else before
        found.append(here[count - 1] if count else -1)
    return found[::-1]


def _owner(chat: Chat, sources: Sequence[int], at: int) -> int | None:
    """The message of the history that begins here in the context, if all of it is there."""
    start = sources[at]
    if start < 0 or (start and chat.owners[start - 1] == chat.owners[start]):
        return None
    owner = chat.owners[start]
    end = chat.sizes[owner]
    is_whole = list(sources[at : at + end]) == list(range(start, start + end))
    return owner if is_whole else None


def _silent(chat: Chat, before: int, owner: int) -> list[int]:
    """Messages with nothing to push, if both their neighbours are in the context."""
    between = list(range(before + 1, owner))
    return [] if any(at in chat.sizes for at in between) else between


def _end(history: Sequence[ModelMessage], chat: Chat, anew: list[ModelMessage]) -> Restored:
    """The messages made anew after the last original, and the silent ones at the history's end.

    If the parts of the newest request were shortened, it keeps its other fields: pydantic-ai
    notes a request's instructions there.
    """
    last = chat.owners[-1]
    newest = history[last]
    if anew and isinstance(newest, ModelRequest):
        anew[-1] = replace(newest, parts=anew[-1].parts)  # type: ignore[arg-type]
    return [*anew, *range(last + 1, len(history))]
