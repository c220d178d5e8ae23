"""The prompts: instructions that never change, and data between marks nobody could have guessed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from turnmill_worker.summarizers.openai.endpoint import Prompt

__all__ = ["Block", "Entry", "Marks", "fresh_nonce", "instructions", "neutral", "text_of"]

_NONCE_BYTES: Final = 6
_WORDS_PER_TOKEN: Final = 0.7

# What could pass for our marks; and what some servers read as the control tokens of a chat.
_LOOKALIKE = re.compile(
    r"<(?=<\s{0,8}(?:[0-9a-f]{8}|summary so far|earlier passages|notes|conversation"
    r"|end\b|SYS\b|/SYS\b"
    r"|(?:latest input|memories|reflections|session|system prompt)\s{1,8}[0-9a-f]{6}))"
    r"|<(?=\|)|\[(?=/?INST\])",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\w.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message, or a part of one, as a model is shown it.

    Attributes:
        seq: 0 for what is no message of the conversation.
        note: what part it is, or ``""``.
    """

    seq: int
    role: str
    text: str
    name: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Data of one kind: ``summary so far``, ``conversation``, …, or a template's own."""

    kind: str
    text: str


class Marks:
    """Puts data between marks with one request's code."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce

    def entry(self, entry: Entry) -> str:
        """A message under its mark; nothing in it looks like a mark."""
        number = f"#{entry.seq}" if entry.seq else ""
        words = (number, entry.role, _NAME.sub("_", entry.name)[:64], entry.note)
        label = " ".join(word for word in words if word)
        return f"<<{self.nonce} {label}>>\n{entry.text}"

    def prompt(self, system: str, blocks: Iterable[Block], closing: Sequence[str]) -> Prompt:
        """The instructions, and a user message of the blocks and what is to be done with them."""
        data = (self.block(block) for block in blocks if block.text)
        return Prompt(system, "\n\n".join([*data, *closing]))

    def block(self, block: Block) -> str:
        """A block between its marks."""
        return f"<<{block.kind} {self.nonce}>>\n{block.text}\n<<end {self.nonce}>>"

    def closing(self, limit: int) -> str:
        """The last words of every prompt."""
        return text_of(
            "closing", nonce=self.nonce, limit=str(limit), words=str(int(limit * _WORDS_PER_TOKEN))
        )


def fresh_nonce(texts: Sequence[str], make: Callable[[int], str] = secrets.token_hex) -> str:
    """A random code that is in none of the texts."""
    while True:
        nonce = make(_NONCE_BYTES)
        if not any(nonce in text for text in texts):
            return nonce


def neutral(text: str) -> str:
    """The text with a blank in whatever could pass for a mark or a server's control token."""
    return _LOOKALIKE.sub(lambda mark: f"{mark[0]} ", text)


def instructions(*, brief: bool = False) -> str:
    """What every model is told, word for word the same, so that providers can cache it."""
    return text_of("event" if brief else "summary", data=text_of("data"))


def text_of(name: str, **values: str) -> str:
    """One of the texts in ``prompts/``, its placeholders filled with words of ours."""
    text = _load(name)
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text


@cache
def _load(name: str) -> str:
    folder = resources.files("turnmill_worker.summarizers").joinpath("prompts")
    return folder.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
