"""Exact tokens of turns, and what becomes of a session's numbers with them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import cast

from turnmill.contract.context import JsonMessage, Usage
from turnmill.contract.legality import CallTracker
from turnmill.contract.render import system_message
from turnmill_worker.compaction.image_and_request_counts import Tally, images, interactions
from turnmill_worker.compaction.snapshot import Count
from turnmill_worker.ports.counters import Counter
from turnmill_worker.ports.values import CountedTurn, Uncounted
from turnmill_worker.tokens import count_message

__all__ = [
    "CountedOnce",
    "count_turns",
    "counting",
    "system_tokens",
    "tally_after",
    "usage_after",
]


class CountedOnce:
    """A counter for one job, in which plan, prompt and context show the same texts."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[str, int] = {}

    @property
    def basis(self) -> str:
        """The counter's."""
        return self._counter.basis

    def count(self, text: str) -> int:
        """Tokens of the text, as the counter says."""
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self._known[text] = self._counter.count(text)
        return tokens


def counting(counter: Counter) -> Count:
    """Exact tokens of a list of messages by this counter, without the reply's opening."""
    return partial(_count_all, counter)


def _count_all(counter: Counter, messages: Sequence[JsonMessage]) -> int:
    return sum(count_message(counter, message) for message in messages)


def count_turns(seen: Uncounted, counter: Counter, tracker: CallTracker) -> list[CountedTurn]:
    """Exact tokens of each turn as a provider gets it, stubs for dead calls included."""
    count = counting(counter)
    return [
        CountedTurn(
            turn.seq,
            count(tracker.repair(turn.messages)),
            images=images(turn.messages),
            interactions=interactions(turn.messages),
            messages=len(turn.messages),
        )
        for turn in seen.turns
    ]


def tally_after(seen: Uncounted, counted: Sequence[CountedTurn]) -> Tally:
    """The session's other counts once these turns are counted, too."""
    return replace(
        seen.tally,
        images=seen.tally.images + sum(turn.images for turn in counted),
        interactions=seen.tally.interactions + sum(turn.interactions for turn in counted),
        history_tokens=seen.tally.history_tokens + sum(turn.tokens for turn in counted),
    )


def system_tokens(counter: Counter, system: str) -> int:
    """Exact tokens of the system prompt as a message; 0 without one."""
    return _cached_system_tokens(cast("Hashable", counter), system) if system else 0


@lru_cache(maxsize=1024)
def _cached_system_tokens(counter: Hashable, system: str) -> int:
    """Tokens of the system message; the same prompt comes with every burst of its session."""
    return count_message(cast("Counter", counter), system_message(system))


def usage_after(seen: Uncounted, counted: Sequence[CountedTurn], system: int) -> Usage:
    """The session's tokens by part once these turns are counted, too."""
    return replace(
        seen.usage,
        system=system,
        tail=seen.usage.tail + sum(turn.tokens for turn in counted),
    )
