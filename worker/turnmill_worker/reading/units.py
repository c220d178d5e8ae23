"""What the extractor chooses between: units, in groups, on lines that say who said them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.flat_json import Flat, flatten, parse_json
from turnmill_worker.reading.sentences import one_line, sentences

GROUP_MARK: Final = "; "
"""Stands between the groups of a line."""

_NAME = re.compile(r"[^\w.-]+")
_ROLES: Final = frozenset({"user", "assistant", "system", "developer", "tool", "function"})
_RESERVED: Final = _ROLES | {"call", "result", "earlier"}


class Source(Enum):
    """Who a line's words come from."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    CALL = "call"
    RESULT = "result"
    EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class Line:
    """One message's, call's or result's place in the summary. `seq` is None if it is unknown."""

    seq: int | None
    source: Source
    name: str = ""
    settled: bool = False
    """Carried over from the previous summary: already in telegraph style."""


class Unit(NamedTuple):
    """The least that is kept or lost: a sentence, or one `key=value`.

    `line` and `group` are positions; `label` opens the group wherever one of its units is kept.
    `body_at` is where the value starts behind its key.
    """

    line: int
    group: int
    label: str
    text: str
    body_at: int = 0

    @property
    def is_prose(self) -> bool:
        """Whether this is a sentence somebody wrote, which telegraph style may shorten."""
        return not self.body_at


@dataclass(slots=True)
class Units:
    """Collects lines and units in conversation order."""

    lines: list[Line]
    units: list[Unit]
    groups: int = 0

    def add_text(self, line: Line, pieces: Iterable[str]) -> None:
        """Adds a line of sentences; nothing if there are none."""
        texts = list(pieces)
        if texts:
            self._open(line)
            self.units.extend(Unit(len(self.lines) - 1, self.groups, "", t) for t in texts)

    def add_flat(self, line: Line, groups: Iterable[Flat], *, even_if_empty: bool = False) -> None:
        """Adds a line of `key=value` groups."""
        found = list(groups)
        if not found:
            if even_if_empty:
                self.add_text(line, ["()"])
            return
        self._open(line)
        for flat in found:
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
        self.units += [
            Unit(unit.line + lines, unit.group + groups, unit.label, unit.text, unit.body_at)
            for unit in other.units
        ]
        self.groups += other.groups

    def _open(self, line: Line) -> None:
        self.lines.append(line)
        self.groups += 1


def read_units(records: Sequence[tuple[int, Mapping[str, Any]]]) -> Units:
    """The units of these messages: to be looked at by many, and changed by none."""
    found = Units([], [])
    add_records(found, records)
    return found


def add_records(into: Units, records: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Adds every message: its words, its calls, or the result it carries."""
    called: dict[str, str] = {}
    for seq, message in records:
        role = str(message.get("role") or "")
        content = _content(message.get("content"))
        calls = message.get("tool_calls")
        if role in {"tool", "function"}:
            # The newest call with this id: agents reuse ids within one session.
            name = message.get("name") or called.get(str(message.get("tool_call_id")), "")
            _add_content(into, Line(seq, Source.RESULT, _safe_name(name)), content)
            continue
        source = _SOURCES.get(role, Source.ASSISTANT)
        _add_content(into, Line(seq, source, _speaker(message.get("name"))), content)
        for call in calls if isinstance(calls, list) else ():
            _add_call(into, seq, call, called)


_SOURCES: Final = {
    "user": Source.USER,
    "system": Source.SYSTEM,
    "developer": Source.SYSTEM,
}


def _add_content(into: Units, line: Line, content: str) -> None:
    parsed = parse_json(content)
    flat = list(flatten(parsed)) if parsed is not None else []
    if flat:
        into.add_flat(line, flat)
    else:
        into.add_text(line, sentences(content))


def _add_call(into: Units, seq: int, call: Any, called: dict[str, str]) -> None:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return
    name = _safe_name(function.get("name"))
    called[str(call.get("id"))] = name
    arguments = function.get("arguments")
    line = Line(seq, Source.CALL, name)
    text = arguments.strip() if isinstance(arguments, str) else ""
    parsed = arguments if isinstance(arguments, Mapping) else parse_json(text)
    if parsed is None and text not in {"", "{}", "[]"}:
        into.add_text(line, sentences(text))
    else:
        into.add_flat(line, flatten(parsed or {}), even_if_empty=True)


def _content(content: Any) -> str:
    """The text of a message; other parts as their type in brackets, never their data."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return "" if content is None else str(content)
    return "\n".join(_parts(content))


def _parts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            text = part.get("text", part.get("refusal"))
            kind = one_line(str(part.get("type") or "part"))[:32]
            yield text if isinstance(text, str) else f"[{_PART_NAMES.get(kind, kind)}]"


_PART_NAMES: Final = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "input_file": "file",
}


def _safe_name(name: Any) -> str:
    """A name that can stand before the colon of a line: no spaces, colons or other marks."""
    return _NAME.sub("_", one_line(str(name or ""))[:64]).strip("_")


def _speaker(name: Any) -> str:
    """A participant's name, unless it poses as a role or a number."""
    safe = _safe_name(name)
    return "" if safe.lower() in _RESERVED or not safe[:1].isalpha() else safe
