"""What was said or tried again and again: the last time stands for all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from turnmill_worker.compaction.pool.work_worth import ENDED
from turnmill_worker.old_reading.actions import Role, without_purpose
from turnmill_worker.old_reading.units import CAME_OF_IT, TALK, Line, Unit

__all__ = ["NOTHING", "Again", "again"]

_ROUTINE: Final = 3
"""A message that came so often, word for word, is told once."""

_LEAST_SPACES: Final = 4
"""What is shorter, like a yes, means something else each time."""

_BOTH: Final = 2
_SHAPE_CHARS: Final = 160
_FAILED = re.compile(
    r"\b(?:[Ee]rrors?|ERRORS?|[Ff]ail(?:s|ed|ure)?|FAIL(?:ED)?|\w{1,40}(?:Error|Exception)|fatal"
    r"|denied|cannot|not found|No such|[Ii]nvalid|NOT been|[Tt]imed out)\b"
)
_SAME: Final = 2
"""Words of an action: what is done, and to what."""

_NAMED = re.compile(r"`[^`]{0,400}`|'[^']{0,80}'|\"[^\"]{0,80}\"|\d+")


class Again(NamedTuple):
    """What came again.

    Attributes:
        by: for the position of what came before, that of the last of its kind.
        notes: what the last one is told with.
    """

    by: Mapping[int, int]
    notes: Mapping[int, str]

    def noted(self, texts: Sequence[str]) -> list[str]:
        """The texts, each with its note."""
        if not self.notes:
            return list(texts)
        return [f"{text}{self.notes.get(at, '')}" for at, text in enumerate(texts)]

    def once(self, order: Sequence[int]) -> list[int]:
        """The order, where the last of its kind stands in the place of all."""
        return list(dict.fromkeys(self.by.get(at, at) for at in order))


NOTHING: Final = Again({}, {})


def again(lines: Sequence[Line], units: Sequence[Unit]) -> Again:
    """Messages that came word for word, and actions that failed alike on the same thing."""
    by: dict[int, int] = {}
    notes: dict[int, str] = {}
    messages: dict[tuple[object, ...], list[list[int]]] = defaultdict(list)
    failures: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    for at, members in groupby(range(len(units)), key=lambda place: units[place].line):
        own = list(members)
        if lines[at].source in TALK:
            texts = tuple(units[place].text for place in own)
            if sum(text.count(" ") for text in texts) >= _LEAST_SPACES:
                messages[lines[at].source, lines[at].name, *texts].append(own)
        for shape, places in _failures(lines[at], own, units):
            failures[shape].append(places)
    for same in messages.values():
        if len(same) >= _ROUTINE:
            by.update(pair for old in same[:-1] for pair in zip(old, same[-1], strict=True))
    for alike in failures.values():
        last = alike[-1][0]
        by.update((place, last) for old in alike[:-1] for place in old)
        if len(alike) > 1:
            first = lines[units[alike[0][0]].line].seq
            since = "in" if len(alike) == _BOTH else "since"
            notes[last] = f" ({len(alike) - 1} more like it failed, {since} turn {first})"
    return Again(by, notes)


def _failures(
    line: Line, own: Sequence[int], units: Sequence[Unit]
) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """What failed actions were done to and what came of them; their places, and what they wrote."""
    for at, place in enumerate(own):
        action, came, outcome = units[place].text.partition(CAME_OF_IT)
        if came and units[place].role in ENDED and _FAILED.search(outcome):
            said = _NAMED.sub("", outcome)[:_SHAPE_CHARS]
            written = [one for one in own[at + 1 :] if units[one].role is Role.WRITTEN]
            done = without_purpose(action).split()[:_SAME]
            yield (line.name, *done, said), [place, *written]
