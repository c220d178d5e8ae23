"""How a session's handle turns the client's answers into results."""

from __future__ import annotations

from turnmill.contract.context import JsonMessage, Pushed
from turnmill.contract.info import ContextInfo
from turnmill.contract.memories_message import memories_message
from turnmill.contract.results import GroundedContext, TurnResult
from turnmill.read_reply import bound

__all__ = ["GROUND_WITHIN_S", "describe", "turn_result", "with_memories"]

GROUND_WITHIN_S = 1.0
"""How long ``process_turn`` waits for memories before it goes on without them."""


def with_memories(
    user_input: str, grounded: GroundedContext, budget_tokens: int
) -> tuple[list[JsonMessage], tuple[str, ...]]:
    """The input's messages, after the memories the policy has room for; and the memories' ids."""
    found = memories_message(grounded.memories, budget_tokens, bound) if budget_tokens else None
    messages = [] if found is None else [found]
    used = tuple(memory.id for memory in grounded.memories)
    return [*messages, {"role": "user", "content": user_input}], used


def turn_result(pushed: Pushed, used: tuple[str, ...], info: ContextInfo) -> TurnResult:
    """What ``process_turn`` returns."""
    return TurnResult(
        seq=pushed.seq,
        grounding_used=used,
        summarization_triggered=info.estimated_tokens > info.limits.soft,
        checkpoint_created=pushed.checkpoint,
        quality_score=1.0 if info.quality is None else info.quality,
        token_count=info.usage.total,
    )


def describe(info: ContextInfo) -> str:
    """The session in one line."""
    first, last = info.watermark + 1, info.last_seq
    return (
        f"{info.interactions} interactions, {info.usage.total:,} of {info.limits.hard:,} tokens "
        f"({info.usage.system:,} system prompt, {info.usage.summary:,} summary), "
        f"{f'turns {first}-{last}' if first <= last else 'no turns'} word for word, "
        f"{info.compactions} compactions"
    )
