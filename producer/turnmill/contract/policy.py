"""The limits and preferences a session is compacted under."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.turns import explain

__all__ = ["ENCODINGS", "MIN_ROOM_TOKENS", "Limits", "Policy", "StrategyName"]

StrategyName = Literal["elide", "rolling", "window"]

ENCODINGS = (
    "o200k_base",
    "o200k_harmony",
    "cl100k_base",
    "heuristic",
)
"""Tokenizer vocabularies by name; ``heuristic`` estimates from characters, for other models.

Others would need a token bound of their own for a read to stay under its hard limit."""

MIN_ROOM_TOKENS = 256
"""Tokens a system prompt must leave for the conversation: a receipt and some of the last turn."""


class Limits(BaseModel):
    """Absolute token limits of one session, its system prompt counted in.

    Attributes:
        hard: a context above it may be refused by the model, so a read projects.
        soft: a context above it is compacted in the background.
        target: what a compaction aims for.
        room: tokens between the system prompt and ``hard``.
    """

    model_config = ConfigDict(frozen=True)

    hard: int
    soft: int
    target: int
    room: int


class Policy(BaseModel):
    """How far a session may grow, and what is done when it has grown.

    The ratios are shares of the *room*: ``max_tokens - reserved_tokens`` less the system prompt,
    so a long prompt narrows the conversation but never makes the target unreachable.

    Attributes:
        max_tokens: the hard limit of a context in tokens, system prompt included.
        reserved_tokens: part of ``max_tokens`` kept free for tool schemas and the model's reply.
        soft_ratio: above this share of the room a compaction starts in the background.
        target_ratio: the share of the room a compaction aims for; less than ``soft_ratio``, so
            that commits are rare and the provider's prompt cache keeps hitting.
        summary_ratio: the share of the room a summary may take; less than ``target_ratio``.
        recent_turns_to_keep: newest turns kept word for word as long as the target allows.
        min_progress_ratio: smallest share of the room a compaction must free to be worth it.
        elide_over_tokens: tool results above this are bulky; ``elide`` shortens old ones.
        strategies: tried in this order, cheap to expensive, until the target is reached.
        summarizer: who answers a summary request; ``extractive`` needs no model and no key.
        encoding: the tokenizer vocabulary the model counts with.
        ttl_s: seconds a session lives in Redis after its last push.

    Raises:
        InvalidPolicy: names the field, or both fields of an impossible combination.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    max_tokens: int = Field(default=8192, ge=2 * MIN_ROOM_TOKENS)
    reserved_tokens: int = Field(default=0, ge=0)
    soft_ratio: float = Field(default=0.8, gt=0, le=1)
    target_ratio: float = Field(default=0.5, gt=0, lt=1)
    summary_ratio: float = Field(default=0.2, gt=0, lt=1)
    recent_turns_to_keep: int = Field(default=3, ge=0)
    min_progress_ratio: float = Field(default=0.1, ge=0, lt=1)
    elide_over_tokens: int = Field(default=200, ge=64)
    strategies: tuple[StrategyName, ...] = Field(
        default=("elide", "rolling", "window"), min_length=1
    )
    summarizer: Literal["extractive"] = "extractive"
    encoding: str = Field(default="o200k_base", min_length=1, max_length=64)
    ttl_s: int = Field(default=30 * 24 * 3600, ge=60)

    if not TYPE_CHECKING:  # type checkers see the fields instead

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                told = explain(error, names_are_content=False)
                raise InvalidPolicy(f"policy: {told}") from None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.target_ratio >= self.soft_ratio:
            raise ValueError(
                f"target_ratio {self.target_ratio:g} must lie in "
                f"(0, soft_ratio={self.soft_ratio:g})"
            )
        if self.summary_ratio >= self.target_ratio:
            raise ValueError(
                f"summary_ratio {self.summary_ratio:g} must lie in "
                f"(0, target_ratio={self.target_ratio:g})"
            )
        if self.max_tokens - self.reserved_tokens < 2 * MIN_ROOM_TOKENS:
            raise ValueError(
                f"reserved_tokens {self.reserved_tokens} must leave at least "
                f"{2 * MIN_ROOM_TOKENS} of max_tokens={self.max_tokens}"
            )
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}")
        if len(set(self.strategies)) != len(self.strategies):
            raise ValueError("strategies must not name one twice")
        return self

    @property
    def hard_limit(self) -> int:
        """Tokens a context may have, system prompt included."""
        return self.max_tokens - self.reserved_tokens

    def limits(self, system_tokens: int) -> Limits:
        """The absolute limits beside a system prompt of this many tokens."""
        room = max(self.hard_limit - system_tokens, 0)
        return Limits(
            hard=self.hard_limit,
            soft=system_tokens + int(room * self.soft_ratio),
            target=system_tokens + int(room * self.target_ratio),
            room=room,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The policy in this JSON object.

        Raises:
            InvalidPolicy: not JSON, or a field is wrong.
        """
        try:
            fields = json.loads(text)
        except ValueError:
            raise InvalidPolicy(f"policy: {len(text)} characters that are not JSON") from None
        if not isinstance(fields, dict):
            raise InvalidPolicy(f"policy: must be a JSON object, got {type(fields).__name__}")
        return cls(**fields)
