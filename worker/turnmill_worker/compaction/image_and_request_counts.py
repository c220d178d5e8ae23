"""What is counted beside tokens: images, and the user's requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmill.contract.context import JsonMessage
from turnmill.contract.memories_message import is_memories

__all__ = ["Tally", "image_parts", "images", "interactions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of a session.

    Attributes:
        images: images shown after the watermark.
        images_before: images in turns covered by now.
        interactions: user requests after the watermark.
        history_tokens: of every turn ever counted.
    """

    images: int = 0
    images_before: int = 0
    interactions: int = 0
    history_tokens: int = 0


def images(messages: Sequence[JsonMessage]) -> int:
    """Images in the messages."""
    return sum(len(image_parts(message)) for message in messages)


def image_parts(message: JsonMessage) -> list[int]:
    """Where in the message's content images are."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [at for at, part in enumerate(content) if part.get("type") == "image_url"]


def interactions(messages: Sequence[JsonMessage]) -> int:
    """How many interactions begin in the messages: a user's word, and what follows it.

    Several user messages in a row are one request; memories are nobody's request.
    """
    begun = 0
    before = ""
    for message in messages:
        if is_memories(message):
            continue
        begun += message["role"] == "user" and before != "user"
        before = message["role"]
    return begun
