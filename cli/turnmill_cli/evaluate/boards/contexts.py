"""A final context as a file that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnmill.contract.context import JsonMessage
from turnmill_cli.evaluate.word_matching import text_of

__all__ = ["write_context"]


def write_context(path: Path, messages: Sequence[JsonMessage]) -> None:
    """Write the messages one after the other, each under its role."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = (f"## {message['role']}\n\n{text_of(message)}\n" for message in messages)
    path.write_text("\n".join(parts))
