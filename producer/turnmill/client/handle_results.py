"""How a session's handle turns the client's answers into results."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import JsonMessage, Pushed
from turnmill.contract.errors import InvalidInput
from turnmill.contract.plural import count
from turnmill.contract.render import memories_message
from turnmill.contract.results import ContextInfo, GroundedContext, TurnResult
from turnmill.contract.rules import INSTRUCTS, REVOKES, Rule
from turnmill.contract.turns import Message, Turn
from turnmill.read.view import bound

MAX_RULE_CHARS = 1_000

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


def instructing(text: str) -> Turn:
    """A user's turn whose whole text is a rule.

    Raises:
        InvalidInput: not text, blank, or too long to be kept word for word.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RULE_CHARS:
        raise InvalidInput(f"rule: must be a text of 1 to {MAX_RULE_CHARS:,} characters")
    return Turn(messages=(Message(role="user", content=text),), metadata={INSTRUCTS: True})


def revoking(rule: str, standing: Sequence[Rule]) -> Turn:
    """A user's turn that ends a rule.

    Raises:
        InvalidInput: no rule of this id is in force.
    """
    text = next((each.text for each in standing if each.id == rule), None)
    if text is None:
        raise InvalidInput(f"rule {rule!r}: none of this id is in force")
    said = Message(role="user", content=f"This rule of mine no longer holds: {text}")
    return Turn(messages=(said,), metadata={REVOKES: rule})


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
        f"{count(info.interactions, 'interaction')}, "
        f"{info.usage.total:,} of {info.limits.hard:,} tokens "
        f"({info.usage.system:,} system prompt, {info.usage.summary:,} summary), "
        f"{f'turns {first}-{last}' if first <= last else 'no turns'} word for word, "
        f"{count(info.compactions, 'compaction')}"
    )
