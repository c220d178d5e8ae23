"""What is counted besides tokens: images and the user's requests, and which are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import is_memories
from turnmill.contract.policy import Policy

__all__ = [
    "INTERACTIONS",
    "Tally",
    "counts_more_than_tokens",
    "exceeded",
    "image_parts",
    "images",
    "interactions",
]

INTERACTIONS: Final = "interactions"
"""Stands for the strategies that cover turns: any of them leaves fewer interactions."""


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
    """The positions of images in the message's content."""
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


def exceeded(policy: Policy, tally: Tally) -> dict[str, str]:
    """Which counts exceed the policy's, and why, by the strategy that lowers them.

    ``managed`` is among them when there is one complete run more than the policy keeps.
    """
    found = {}
    if policy.max_history_images is not None:
        thumbnail = policy.keep_first_image and tally.images_before == 0
        allowed = policy.max_history_images + thumbnail
        if tally.images > allowed:
            found["images"] = f"{tally.images} images exceed the {allowed} to be kept"
    if policy.max_interactions is not None and tally.interactions > policy.max_interactions:
        found[INTERACTIONS] = (
            f"{tally.interactions} interactions exceed the {policy.max_interactions} to be kept"
        )
    if policy.recent_runs and "managed" in policy.strategies:
        # The newest run is the one the agent is in.
        beside = (policy.passthrough_runs or 0) + 1
        if tally.interactions > beside and tally.history_tokens >= (policy.token_threshold or 0):
            found["managed"] = f"{tally.interactions} runs exceed the {beside} kept word for word"
    return found


def counts_more_than_tokens(policy: Policy) -> bool:
    """Whether a count can exceed the policy's while there are few tokens."""
    kept = (policy.max_history_images, policy.max_interactions)
    return kept != (None, None) or bool(policy.recent_runs and "managed" in policy.strategies)
