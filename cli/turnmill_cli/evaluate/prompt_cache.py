"""What providers bill for a prompt whose beginning they have seen before.

The rules, as of November 2026:

- OpenAI (developers.openai.com/api/docs/guides/prompt-caching): from 1,024 tokens on, the longest
  beginning that an earlier prompt had, in steps of 128, for five to ten minutes after its last use.
  Since GPT-5.6 a prompt is written to the cache up to its newest message, for 1.25 times the price
  of input; it is found again at the end of such a prompt alone, and lives for thirty minutes.
- Anthropic (platform.claude.com/docs/en/build-with-claude/prompt-caching): up to a mark, if 1,024
  tokens or more stand before it (512 to 4,096, by model); written for 1.25 times the price of input
  for five minutes, or twice the price for an hour, read for a tenth; each use begins the time anew.
  From a mark it looks back over twenty blocks.

A message is taken for a block. OpenAI's routing to machines, which loses some hits, is left out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Sent = tuple[bytes, int]
"""A message, and its tokens."""

_LOOK_BACK: Final = 20


@dataclass(frozen=True, slots=True)
class Rules:
    """How one provider caches.

    Attributes:
        lives_s: after its last use.
        read, write: shares of the price of input.
        step: what is found is a multiple of so many tokens.
        marked: found and written only up to marks: behind the system prompt, and at the end.
        least: tokens from which on a beginning is cached.
    """

    lives_s: float
    read: float
    write: float
    step: int = 1
    marked: bool = True
    least: int = 1024


RULES: Final = {
    "openai": Rules(300, read=0.5, write=1.0, step=128, marked=False),
    "openai-30m": Rules(1800, read=0.1, write=1.25),
    "anthropic": Rules(300, read=0.1, write=1.25),
    "anthropic-1h": Rules(3600, read=0.1, write=2.0),
}
"""By the names that ``Policy.when_idle`` takes; OpenAI's ``read`` is that of gpt-4o, .1 from gpt-5
on."""


class PromptCache:
    """What one provider has in its cache, for one session."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._until: dict[bytes, float] = {}

    def bill(self, ends: Sequence[Sent], at_s: float) -> float:
        """A prompt's price, in tokens of uncached input; it is in the cache afterwards.

        ``ends`` are its ``beginnings``.
        """
        rules = self._rules
        marks = {1, len(ends)} if rules.marked else set(range(1, len(ends) + 1))
        found = 0
        for at, (digest, tokens) in enumerate(ends, 1):
            is_near = any(0 <= mark - at < _LOOK_BACK for mark in marks)
            if is_near and tokens >= rules.least and self._until.get(digest, -math.inf) >= at_s:
                found = tokens
        for at, (digest, tokens) in enumerate(ends, 1):
            if tokens >= rules.least and (at in marks or tokens == found):
                self._until[digest] = at_s + rules.lives_s
        total = ends[-1][1] if ends else 0
        cached = found // rules.step * rules.step
        price = rules.write if total >= rules.least else 1.0
        return cached * rules.read + (total - cached) * price


def beginnings(prompt: Sequence[Sent]) -> list[Sent]:
    """A digest of the messages up to each, and their tokens."""
    whole, tokens, found = hashlib.sha256(), 0, list[Sent]()
    for text, size in prompt:
        whole.update(b"%d:%b" % (len(text), text))
        tokens += size
        found.append((whole.digest(), tokens))
    return found
