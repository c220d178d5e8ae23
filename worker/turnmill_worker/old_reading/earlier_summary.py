"""An earlier summary as units again: its lines compete with the new turns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from turnmill_worker.old_reading.actions import Role, role_told
from turnmill_worker.old_reading.flat_json import SHARED, Flat
from turnmill_worker.old_reading.sentences import clean, sentences
from turnmill_worker.old_reading.units import (
    ALIKE_MARK,
    CAME_OF_IT,
    GROUP_MARK,
    LINE_END,
    TALK,
    TOOLS,
    WROTE,
    Line,
    Source,
    Units,
)

__all__ = ["add_previous"]

_OPENING = re.compile(r"(?:(\d{1,18}) )?([\w.-]{1,64})(?: ([\w.-]{1,64}))?: ?")
_PAIR = re.compile(r"[^\s=]{1,64}=")
_PAIR_START = re.compile(rf" (?={_PAIR.pattern})")
_LABEL = re.compile(rf"((?:{SHARED} )?[^\s=]{{1,64}}(?: \d{{1,3}})?): ")
_BY_NAME: Final = {source.value: source for source in Source}


def add_previous(into: Units, previous: str) -> None:
    """Adds the lines of `previous`; a line this package did not write counts as `earlier`."""
    speakers: dict[str, Source] = {}
    tool = ""
    for row in clean(previous).split("\n"):
        text = row.strip()
        if not text:
            continue
        line, body = _read(text, speakers)
        if line.source in TOOLS:
            # Told once for all lines that follow each other.
            tool = line.name or tool
            line = replace(line, name=tool)
        else:
            tool = ""
        if line.source is Source.CALL and CAME_OF_IT in body:
            action, *written = body.split(f" {WROTE}")
            into.add_action(line, action, role_told(action.partition(CAME_OF_IT)[0]), written)
        elif line.source is Source.RESULT and LINE_END in body:
            into.add_text(line, [body], Role.QUOTATION)
        elif line.source in {Source.CALL, Source.RESULT} and "=" in body:
            into.add_flat(line, list(_groups(body)))
        else:
            into.add_text(line, sentences(body))


def _read(text: str, speakers: dict[str, Source]) -> tuple[Line, str]:
    """The line's seq and speaker, and the rest. A speaker's role is told once, at first mention."""
    match = _OPENING.match(text)
    if match:
        seq = int(match[1]) if match[1] else None
        source, name = _BY_NAME.get(match[2]), match[3] or ""
        if source in TALK and name:
            speakers[name] = source
        elif not source and not name:
            source, name = speakers.get(match[2]), match[2]
        if source and (seq is None) == (source is Source.EARLIER):
            return Line(seq, source, name, settled=True), text[match.end() :]
    return Line(None, Source.EARLIER, settled=True), text


def _groups(body: str) -> Iterator[Flat]:
    """The records of a line; a mark where none begins or ends stands inside a value."""
    labelled: list[tuple[str, list[str]]] = []
    for part in body.split(GROUP_MARK):
        found = _LABEL.match(part)
        label = found[1] if found else ""
        if labelled and label == labelled[-1][0]:
            labelled[-1][1].append(part)
        else:
            labelled.append((label, [part[found.end() :] if found else part]))
    for label, parts in labelled:
        for record in _records(GROUP_MARK.join(parts)):
            yield Flat(label, _pairs(record))


def _records(text: str) -> Iterator[str]:
    own: list[str] = []
    for part in text.split(ALIKE_MARK):
        if own and _PAIR.match(own[0]) and _PAIR.match(part):
            yield ALIKE_MARK.join(own)
            own = []
        own.append(part)
    yield ALIKE_MARK.join(own)


def _pairs(record: str) -> tuple[tuple[str, str], ...]:
    pairs = (pair.partition("=") for pair in _PAIR_START.split(record))
    return tuple(
        (key, value) if mark and key else ("", key + mark + value) for key, mark, value in pairs
    )
