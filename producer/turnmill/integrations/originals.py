"""Which messages of a context are those of a history, word for word. Pure.

So a framework gets back the very objects it had, with all that a chat message has no field for:
thinking, provider details, timestamps. Only what turnmill wrote or shortened is made anew.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from turnmill.contract.context import JsonMessage

__all__ = ["key", "originals"]


def key(message: JsonMessage) -> str:
    """A hash of the content: the same in every process."""
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()


def originals(
    keys: Sequence[str], owners: Sequence[int], context: Sequence[JsonMessage]
) -> list[int | JsonMessage]:
    """The context as positions in the history, and messages to make anew, in order.

    ``keys`` and ``owners`` belong to the chat messages that the history was made into: the ``key``
    of each, and the position in the history of what it is a part of. A position is returned only
    where all its chat messages are. One that had none comes back where both its neighbours do.
    """
    sizes = Counter(owners)
    sources = _sources(keys, context)
    found: list[int | JsonMessage] = []
    at = 0
    while at < len(context):
        owner = _owner(owners, sizes, sources, at)
        if owner is None:
            found.append(context[at])
            at += 1
            continue
        if found and isinstance(before := found[-1], int):
            between = range(before + 1, owner)
            found += [] if any(silent in sizes for silent in between) else between
        found.append(owner)
        at += sizes[owner]
    return found


def _sources(keys: Sequence[str], context: Sequence[JsonMessage]) -> list[int]:
    """For each context message, the newest chat message it can be, in order; else -1."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(keys):
        places.setdefault(word, []).append(at)
    found: list[int] = []
    before = len(keys)
    for message in reversed(context):
        here = places.get(key(message), [])
        count = bisect_left(here, before)
        before = here[count - 1] if count else before
        found.append(here[count - 1] if count else -1)
    return found[::-1]


def _owner(
    owners: Sequence[int], sizes: Counter[int], sources: Sequence[int], at: int
) -> int | None:
    """The message of the history that begins here in the context, if all of it is there."""
    start = sources[at]
    if start < 0 or (start and owners[start - 1] == owners[start]):
        return None
    end = sizes[owners[start]]
    is_whole = list(sources[at : at + end]) == list(range(start, start + end))
    return owners[start] if is_whole else None
