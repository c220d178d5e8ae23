"""Memories in any number, made of real ones: what an index costs when it is large."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence

from turnmill_worker.ports.values import Memory

__all__ = ["crowd"]

RARE = 2


def crowd(real: Sequence[Memory], size: int) -> list[Memory]:
    """So many memories: the real ones, and then others made of their words.

    Another conversation has the turns' lengths, the words in another order, names of its own, and
    instead of rare words some that are as rare: vocabulary grows with what is said.
    """
    said = [word for memory in real for word in memory.text.split()]
    times = Counter(said)
    found = list(real)
    chance = random.Random(7)
    for copy in range(1, -(-size // len(real))):
        words = [f"{word}{copy}" if times[word] <= RARE else word for word in said]
        chance.shuffle(words)
        drawn = iter(words)
        for memory in real:
            text = " ".join(next(drawn) for _ in memory.text.split())
            found.append(
                dataclasses.replace(
                    memory,
                    id=f"{copy}-{memory.id}",
                    text=text,
                    speaker=f"{memory.speaker}{copy}",
                )
            )
    return found[:size]
