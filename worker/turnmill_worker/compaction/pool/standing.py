"""What the place, the form and the wording of a unit multiply its worth by: its standing.

Worked out once, beside the units it was said with, and kept with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from operator import attrgetter
from typing import Final, NamedTuple

from turnmill_worker.compaction.pool.work_worth import WORK
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.code_lines import is_heading
from turnmill_worker.old_reading.sentences import is_guarded
from turnmill_worker.old_reading.units import CAME_OF_IT, TALK, TOOLS, Line, Source, Unit, is_prompt
from turnmill_worker.old_reading.words import IDENTIFIERS, Concept, concepts_of

__all__ = ["first_standings", "standings"]

LEAD: Final = 1.25
"""People open a longer message with its point."""

QUESTION: Final = 0.8
ANSWER: Final = 1.8
OF_ONESELF: Final = 1.5
TO_THE_OTHER: Final = 0.6
"""People who talk tell facts of themselves, and most of all when asked; what they say to the other
is mostly praise and thanks. Where tools are used this does not hold: there a question is the task.
"""

HEADING: Final = 0.3
"""A line that only names what follows."""

PROMPT: Final = 0.05
"""A few sentences of an agent's instructions are of no use; they come after all that was said."""

_PLAIN_ANSWER: Final = 6
LONG_ANSWER: Final = 0.7
"""An assistant's sentences beyond that many share what so many are worth, to this power: long
answers are mostly advice, and what was decided is said in few words."""

LONG_REPORT: Final = 0.35
"""The same where tools are used: there a long answer tells what they returned and came to."""

LABELLED: Final = 1.6
"""What a user put a label in capitals before: ``DECISION: …``, ``NOTE: …``."""

ANNOUNCED: Final = 0.1
"""What an assistant says it does next, beside the call that does it, or of an outcome that stands
beside its action, and adds no name or reason to: that tells the same."""

_LONG_MESSAGE: Final = 3
_QUESTION_MARKS: Final = ("?", "？", "؟")
_CAPITAL = r"[^\W\d_a-zß-ÿа-яё]"
_LABELLED = re.compile(rf"{_CAPITAL}{{2,20}}(?:[ _-]{_CAPITAL}{{1,20}}){{0,2}}: ?\w")
_OWN = re.compile(r"\b(?:I|[Mm]y|me|mine|[Ww]e|[Oo]ur|us)\b")
_ANNOUNCES = re.compile(
    r"(?:[A-Za-z]{1,12},? ){0,2}?(?:[Tt]o [^,.:;]{1,60}, )?"
    r"(?:[Ll]et(?:'s|’s| me| us)(?! know)|(?:I|[Ww]e)(?:'ll|’ll| will"
    r"|(?:'m|’m|'re|’re| am| are) going to"
    r"| need to (?:find|look|explore|examine|locate|check|view|identify|understand|see|read))) "
)
_OF_OUTCOMES: Final = frozenset(
    {word for _, word in concepts_of(
        "seem look appear like search command output result listing snippet directory folder file"
        " script edit change error message show contain return say indicate provide exact match"
        " exist bound large process syntax mistake previous attempt tool range code several"
        " relevant likely find any found success successfully update remove create locate"
        " still subdirectory processed",
        prose=False,
    )}
)  # fmt: skip
"""Words in which people say that something came of an action, and not what."""

_A_REMARK: Final = 20
"""Words; who says more adds something."""

_EDGES: Final = ".,:;!?()\"'`"
_ASKING: Final = frozenset({"if", "whether"})
_WHY: Final = frozenset({"because", "since", "therefore"})
_YOURS = re.compile(r"\b[Yy]ours?\b|\b[Yy]ou\b")


def standings(lines: Sequence[Line], units: Sequence[Unit]) -> Iterator[float]:
    """Each unit's standing: the one that was kept with it, or else its first."""
    first = first_standings(lines, units, again=False)
    return (unit.standing or standing for unit, standing in zip(units, first, strict=True))


def first_standings(
    lines: Sequence[Line], units: Sequence[Unit], *, again: bool = True
) -> Iterator[float]:
    """Each unit's factor for its place, its form and, in a talk without tools, its wording.

    Without ``again``, units of which it is known may be given any.
    """
    talk, called = _is_talk(lines), _called(lines, units)
    tools = any(line.source in TOOLS for line in lines)
    asked, came = False, ""
    for at, members in groupby(units, key=attrgetter("line")):
        line, own = lines[at], list(members)
        if not again and all(unit.standing for unit in own):
            yield from repeat(1.0, len(own))
            asked = line.source in TALK and own[-1].text.endswith(_QUESTION_MARKS)
            continue
        spoken = line.source in TALK
        other = PROMPT if is_prompt(line, len(own)) else 1.0
        power = LONG_REPORT if tools else LONG_ANSWER
        beside = _Beside(called.get(line.seq, ""), came)
        forms = _forms(line, own, beside, power) if spoken else repeat(other, len(own))
        if line.source is Source.CALL:
            ended = [unit.text for unit in own if CAME_OF_IT in unit.text]
            came = " ".join([line.name, *ended]) if ended else ""
        for place, (unit, factor) in enumerate(zip(own, forms, strict=True)):
            opens_long = place == 0 and len(own) >= _LONG_MESSAGE and unit.is_prose
            factor *= WORK[unit.role]  # noqa: PLW2901 - one product of five
            if opens_long and line.source is Source.USER:
                factor *= LEAD  # noqa: PLW2901
            if line.source is Source.USER and _LABELLED.match(unit.text):
                factor *= LABELLED  # noqa: PLW2901
            if talk and spoken:
                answers = asked and place == 0
                factor *= _wording(unit.text, settled=line.settled, answers=answers)  # noqa: PLW2901
            yield factor
        asked = spoken and own[-1].text.endswith(_QUESTION_MARKS)


def _called(lines: Sequence[Line], units: Sequence[Unit]) -> dict[int | None, str]:
    """What is called in each turn in which an assistant speaks, too."""
    spoke = {line.seq for line in lines if line.source is Source.ASSISTANT}
    calls: dict[int | None, list[str]] = {}
    for unit in units:
        line = lines[unit.line]
        if line.source is Source.CALL and line.seq in spoke:
            calls.setdefault(line.seq, [line.name]).append(unit.text)
    return {seq: " ".join(texts) for seq, texts in calls.items()}


class _Beside(NamedTuple):
    """What tells the same as an assistant's words: what it calls with them, what came before."""

    called: str
    came: str

    def tells(self, text: str) -> bool:
        """Whether a sentence of the assistant's adds nothing to it."""
        if self.called and _ANNOUNCES.match(text):
            return _announces(text, self.called)
        return bool(self.came) and text.count(" ") < _A_REMARK and _restates(text, self.came)


def _forms(line: Line, own: Sequence[Unit], beside: _Beside, power: float) -> Iterator[float]:
    """A heading says little, and the more an assistant says, the less each of it."""
    sentences = sum(unit.role is not Role.QUOTATION for unit in own)
    factor = 1.0
    if line.source is Source.ASSISTANT and sentences > _PLAIN_ANSWER:
        factor = (_PLAIN_ANSWER / sentences) ** power
    for unit in own:
        if not unit.is_prose:
            yield factor
        elif line.source is Source.ASSISTANT and beside.tells(unit.text):
            yield factor * ANNOUNCED
        else:
            yield factor * (HEADING if is_heading(unit.text) else 1.0)


def _announces(text: str, called: str) -> bool:
    """Whether a sentence only says what is done next: no reason, no limit, and nothing by name."""
    words = _words(text)
    # Where nothing follows an "instead", it says of nothing what is not done.
    words = words[:-1] if words[-1:] == ["instead"] else words
    if is_guarded([word for word in words if word not in _ASKING]) or not _WHY.isdisjoint(words):
        return False
    named = (value for kind, value in concepts_of(text, prose=True) if kind in IDENTIFIERS)
    return all(map(called.lower().__contains__, named))


def _restates(text: str, came: str) -> bool:
    """Whether a sentence says of an outcome only what is told of it: no reason, nothing new."""
    said = frozenset(concepts_of(text, prose=False))
    new = [value for _, value in said.difference(_told(came)) if value not in _OF_OUTCOMES]
    return not new and _WHY.isdisjoint(_words(text))


@lru_cache(maxsize=1 << 8)
def _told(came: str) -> frozenset[Concept]:
    return frozenset(concepts_of(came, prose=False))


def _words(text: str) -> list[str]:
    return [word.lower().strip(_EDGES) for word in text.replace("’", "'").split()]


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


def _is_talk(lines: Sequence[Line]) -> bool:
    """Whether two speak, and no tool is called."""
    sources = {line.source for line in lines}
    return sources >= TALK and not sources & TOOLS
