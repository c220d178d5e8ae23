"""What messages say as units, in groups, on lines that say who said them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.flat_json import Flat

GROUP_MARK: Final = "; "
"""Stands between the groups of a line."""

ALIKE_MARK: Final = " | "
"""Stands between groups of one label, which is told once."""

CAME_OF_IT: Final = " → "
"""Stands between an action and its outcome."""

WROTE: Final = "wrote: "
"""Stands before lines that an action wrote."""

LINE_END: Final = " ⏎ "
"""Stands between lines that are quoted together."""


class Source(Enum):
    """Who a line's words come from."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    CALL = "call"
    RESULT = "result"
    EARLIER = "earlier"

    # Found by its name in Python code otherwise, and asked for with every sentence.
    __hash__ = object.__hash__


TALK: Final = frozenset({Source.USER, Source.ASSISTANT})
"""Those who speak."""

TOOLS: Final = frozenset({Source.CALL, Source.RESULT})
"""What is asked of tools, and what they return."""


PROMPT_SENTENCES: Final = 6
"""A system message of more sentences tells an agent how to work: whoever runs it has that text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message's, call's or result's place in the summary. `seq` is None if it is unknown."""

    seq: int | None
    source: Source
    name: str = ""
    settled: bool = False
    """Carried over from the previous summary: already in telegraph style."""


def is_prompt(line: Line, sentences: int) -> bool:
    """Whether a message of so many sentences is an agent's system prompt."""
    return line.source is Source.SYSTEM and sentences > PROMPT_SENTENCES


class Unit(NamedTuple):
    """The least that is kept or lost: a sentence, or one `key=value`.

    `line` and `group` are positions; `label` opens the group wherever one of its units is kept.
    `body_at` is where the value starts behind its key; `role` what it tells of an agent's work.
    `standing` is what its place and form multiplied its worth by when it was first read; 0 before.
    """

    line: int
    group: int
    label: str
    text: str
    body_at: int = 0
    role: Role = Role.SAID
    standing: float = 0.0

    @property
    def is_prose(self) -> bool:
        """Whether this is a sentence somebody wrote, which telegraph style may shorten."""
        return not self.body_at


def is_own_words(line: Line, unit: Unit) -> bool:
    """Whether a unit is a sentence of the user's own: no output, code or field."""
    return unit.is_prose and unit.role is Role.SAID and line.source is Source.USER


# What a text is called before it begins: "NOTE: …", "Hard limit: …".
LABEL = re.compile(r"^[^\W\d_][\w'-]{0,20}(?: [^\W\d_][\w'-]{0,20}){0,2}: +(?=\S)")


@dataclass(slots=True)
class Units:
    """Collects lines and units in conversation order."""

    lines: list[Line]
    units: list[Unit]
    groups: int = 0

    def add_text(self, line: Line, pieces: Iterable[str], role: Role = Role.SAID) -> None:
        """Adds a line of sentences; nothing if there are none."""
        texts = list(pieces)
        self.add_texts(line, texts, [role] * len(texts))

    def add_texts(self, line: Line, texts: Sequence[str], roles: Sequence[Role]) -> None:
        """Adds a line of sentences, each with its role; nothing if there are none."""
        if texts:
            self._open(line)
            at = len(self.lines) - 1
            self.units.extend(
                Unit(at, self.groups, "", text, role=role)
                for text, role in zip(texts, roles, strict=True)
            )

    def add_action(self, line: Line, text: str, role: Role, written: Iterable[str]) -> int:
        """Adds an action, and behind it the lines it wrote; returns the action's position."""
        place = len(self.units)
        self.add_text(line, [text], role)
        first = self.units[place]
        more = (first._replace(text=f"{WROTE}{lines}", role=Role.WRITTEN) for lines in written)
        self.units.extend(more)
        return place

    def add_flat(self, line: Line, groups: Sequence[Flat], *, even_if_empty: bool = False) -> None:
        """Adds a line of `key=value` groups."""
        if not groups:
            if even_if_empty:
                self.add_text(line, ["()"])
            return
        self._open(line)
        for flat in groups:
            for key, value in flat.pairs:
                text = f"{key}={value}" if key else value
                at = len(key) + 1 if key else 0
                unit = Unit(len(self.lines) - 1, self.groups, flat.label, text, at)
                self.units.append(unit)
            self.groups += 1

    def add_all(self, other: Units) -> None:
        """Adds the lines and units of another, behind those that are here."""
        lines, groups = len(self.lines), self.groups
        self.lines += other.lines
        self.units += (
            [Unit(unit.line + lines, unit.group + groups, *unit[2:]) for unit in other.units]
            if lines
            else other.units
        )
        self.groups += other.groups

    def said_in(self, seqs: Container[int | None]) -> frozenset[int]:
        """Positions of what the user says in such turns."""
        lines = self.lines
        return frozenset(
            at
            for at, unit in enumerate(self.units)
            if lines[unit.line].source is Source.USER and lines[unit.line].seq in seqs
        )

    def within(self, texts: Iterable[tuple[int, str]]) -> frozenset[int]:
        """Positions of what the user says in turns of such seqs and these texts say whole."""
        known: dict[int | None, str] = {}
        for seq, text in texts:
            known[seq] = f"{known.get(seq, '')} {' '.join(text.split())}"
        lines = self.lines
        return frozenset(
            at
            for at, unit in enumerate(self.units if known else ())
            if lines[unit.line].source is Source.USER
            and LABEL.sub("", unit.text.rstrip(".!"), count=1)
            in known.get(lines[unit.line].seq, "")
        )

    def _open(self, line: Line) -> None:
        self.lines.append(line)
        self.groups += 1
