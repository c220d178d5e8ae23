"""A context from turnmill as a history for pydantic-ai. Pure.

A message that turnmill gives back word for word becomes the very object it was made from. So
nothing is lost for which a chat message has no field: thinking, native tools, timestamps, provider
details. Only what turnmill wrote or shortened is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from pydantic_ai.messages import ModelMessage, ModelRequest

from turnmill.contract.context import JsonMessage
from turnmill.integrations.originals import originals
from turnmill.integrations.pydantic_ai.messages import Chat, from_chat

__all__ = ["restore"]

Restored = list[ModelMessage | int]
"""Messages made anew, and positions in the history of those that are as they were."""


def restore(
    history: Sequence[ModelMessage], chat: Chat, context: Sequence[JsonMessage]
) -> Restored:
    """The context as messages of the history and new ones; it ends as the history does.

    If the parts of the newest request were shortened, it keeps its other fields: pydantic-ai
    notes a request's instructions there.
    """
    made: Restored = []
    found = originals(chat.keys, chat.owners, context)
    for _, run in groupby(found, key=lambda item: isinstance(item, int)):
        items = list(run)
        made += [item for item in items if isinstance(item, int)]
        made += from_chat([m for m in items if not isinstance(m, int)], chat.names)
    last = chat.owners[-1]
    newest = history[last]
    if made and isinstance(end := made[-1], ModelRequest) and isinstance(newest, ModelRequest):
        made[-1] = replace(newest, parts=end.parts)
    made += range(last + 1, len(history))
    if chat.prompts and 0 not in made:
        made.insert(0, ModelRequest(parts=list(chat.prompts)))
    return made
