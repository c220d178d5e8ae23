"""Memories as a message of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnmill.contract.context import JsonMessage
from turnmill.contract.results import GroundedMemory

__all__ = ["MEMORIES", "memories_message"]

MEMORIES = "memories"
"""The name of such a message: what it holds never becomes a memory again."""


def memories_message(
    memories: Sequence[GroundedMemory],
    budget_tokens: int,
    count: Callable[[Sequence[JsonMessage]], int],
) -> JsonMessage | None:
    """The best memories that fit ``budget_tokens`` as one user message, or None when none does."""
    lines: list[str] = []
    for memory in memories:
        longer = [*lines, _line(memory)]
        if count([_message(longer)]) <= budget_tokens:
            lines = longer
    return _message(lines) if lines else None


def _message(lines: Sequence[str]) -> JsonMessage:
    text = "\n".join(["[Memories that may help, not said in this conversation]", *lines, "[End]"])
    return {"role": "user", "name": MEMORIES, "content": text}


def _line(memory: GroundedMemory) -> str:
    where = f"{memory.session}, " if memory.session else ""
    # On one line: a memory cannot end the list, nor begin another.
    return f"- ({where}{memory.speaker or memory.kind}) {' '.join(memory.text.split())}"
