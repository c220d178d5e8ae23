"""What a unit's place, wording and field multiply the worth of its words by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from turnmill_worker.reading.units import Line, Source, Unit

SETTLED: Final = 1.1
"""What an earlier compaction kept has been found worth keeping before."""

LEAD: Final = 1.25
"""People open a longer message with its point."""

QUESTION: Final = 0.6
ANSWER: Final = 1.8
OF_ONESELF: Final = 1.25
TO_THE_OTHER: Final = 0.6
"""People who talk tell facts of themselves, and most of all when asked; what they say to the other
is mostly praise and thanks. Where tools are used this does not hold: there a question is the task.
"""

TOGETHER: Final = 1.15
"""In such a talk, what a sentence gains once its turn is opened: half a turn is often not
understood. The fields of a record stand alone."""

UNUSED_FIELD: Final = 0.77
USED_FIELD: Final = 2 * UNUSED_FIELD
"""A result's field, by how much of what it held was said or passed on: of a flight the number is
asked for again, not the seats left."""

_USUAL_SHARE: Final = 0.4
_DOUBT: Final = 6
"""So many concepts of a field must be met before its own share counts more than the usual one."""

_LONG_MESSAGE: Final = 3
_TALK: Final = frozenset({Source.USER, Source.ASSISTANT})
_TOOLS: Final = frozenset({Source.CALL, Source.RESULT})
_QUESTION_MARKS: Final = ("?", "？", "؟")
_OWN = re.compile(r"\b(?:I|[Mm]y|me|mine|[Ww]e|[Oo]ur|us)\b")
_YOURS = re.compile(r"\b[Yy]ours?\b|\b[Yy]ou\b")


def is_talk(lines: Sequence[Line]) -> bool:
    """Whether two speak, and no tool is called."""
    sources = {line.source for line in lines}
    return sources >= _TALK and not sources & _TOOLS


def place_factors(lines: Sequence[Line], units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's factor for where it stands and, in a talk without tools, how it is worded."""
    talk = is_talk(lines)
    asked = False
    for at, members in groupby(units, key=lambda unit: unit.line):
        line, own = lines[at], list(members)
        spoken = line.source in _TALK
        for place, unit in enumerate(own):
            factor = SETTLED if line.settled else 1.0
            opens_long = place == 0 and len(own) >= _LONG_MESSAGE and unit.is_prose
            if opens_long and line.source is Source.USER:
                factor *= LEAD
            if talk and spoken:
                factor *= _wording(unit.text, settled=line.settled, answers=asked and place == 0)
            yield factor
        asked = spoken and own[-1].text.endswith(_QUESTION_MARKS)


def _wording(text: str, *, settled: bool, answers: bool) -> float:
    yours = _YOURS.search(text)
    factor = 1.0
    # A settled sentence has lost its opening "I" to telegraph style.
    if _OWN.search(text) or (settled and not yours):
        factor = OF_ONESELF
    elif yours:
        factor = TO_THE_OTHER
    if text.endswith(_QUESTION_MARKS):
        return factor * QUESTION
    return factor * ANSWER if answers else factor


def field_factors(
    lines: Sequence[Line],
    units: Sequence[Unit],
    by_unit: Sequence[Sequence[int]],
    used: Sequence[bool],
) -> Iterator[float]:
    """Each unit's factor for its field; `used` tells which concepts stand outside results too."""
    keys = [
        unit.text[: unit.body_at] if lines[unit.line].source is Source.RESULT else ""
        for unit in units
    ]
    held: dict[str, set[int]] = {}
    for key, concepts in zip(keys, by_unit, strict=True):
        if key:
            held.setdefault(key, set()).update(concepts)
    factors = {"": 1.0}
    for key, whole in held.items():
        times = sum(used[concept] for concept in whole)
        share = (_DOUBT * _USUAL_SHARE + times) / (_DOUBT + len(whole))
        factors[key] = UNUSED_FIELD + (USED_FIELD - UNUSED_FIELD) * share
    return (factors[key] for key in keys)
