"""Messages and an earlier summary as units, in groups, on lines that say who said them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from turnmill.contract.names import Seq
from turnmill_worker.reading.flat_json import Flat, flatten, parse_json
from turnmill_worker.reading.sentences import clean, one_line, sentences

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
    `body_at` is where the value starts behind its key. `standing` is what place and wording
    multiplied its worth by when it was first read; 0 before.
    """

    line: int
    group: int
    label: str
    text: str
    body_at: int = 0
    standing: float = 0.0

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
        self.units += [
            unit._replace(line=unit.line + lines, group=unit.group + groups) for unit in other.units
        ]
        self.groups += other.groups

    def stated(self, texts: Mapping[Seq, str]) -> frozenset[int]:
        """Positions of what users say in turns of such seqs, as far as these texts state it."""
        known = {seq: frozenset(sentences(text)) for seq, text in texts.items()}
        return frozenset(
            at
            for at, unit in enumerate(self.units if known else ())
            if self.lines[unit.line].source is Source.USER
            and unit.text in known.get(Seq(self.lines[unit.line].seq or 0), ())
        )

    def _open(self, line: Line) -> None:
        self.lines.append(line)
        self.groups += 1


def read_units(records: Sequence[tuple[int, Mapping[str, Any]]]) -> Units:
    """The units of these messages; many share them, so never change them."""
    found = Units([], [])
    called: dict[str, str] = {}
    for seq, message in records:
        role = str(message.get("role") or "")
        content = _content(message.get("content"))
        calls = message.get("tool_calls")
        if role in {"tool", "function"}:
            # The newest call with this id: agents reuse ids within one session.
            name = message.get("name") or called.get(str(message.get("tool_call_id")), "")
            _add_content(found, Line(seq, Source.RESULT, _safe_name(name)), content)
            continue
        source = _SOURCES.get(role, Source.ASSISTANT)
        _add_content(found, Line(seq, source, _speaker(message.get("name"))), content)
        for call in calls if isinstance(calls, list) else ():
            _add_call(found, seq, call, called)
    return found


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
        into.add_flat(line, list(flatten(parsed or {})), even_if_empty=True)


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


# --- an earlier summary: its lines compete with the new turns -----------------------------------

_OPENING = re.compile(r"(?:(\d{1,18}) )?([\w.-]{1,64})(?: ([\w.-]{1,64}))?: ?")
_PAIR_START = re.compile(r" (?=[^\s=]{1,64}=)")
_LABEL = re.compile(r"([^\s=]{1,64}): ")
_SPEAKERS: Final = frozenset({Source.USER, Source.ASSISTANT})
_BY_NAME: Final = {source.value: source for source in Source}


def add_previous(into: Units, previous: str) -> None:
    """Adds the lines of `previous`; a line this package did not write counts as `earlier`."""
    speakers: dict[str, Source] = {}
    for row in clean(previous).split("\n"):
        text = row.strip()
        if not text:
            continue
        line, body = _read(text, speakers)
        if line.source in {Source.CALL, Source.RESULT} and "=" in body:
            into.add_flat(line, list(_groups(body)))
        else:
            into.add_text(line, sentences(body))


def _read(text: str, speakers: dict[str, Source]) -> tuple[Line, str]:
    """The line's seq and speaker, and the rest. A speaker's role is told once, at first mention."""
    match = _OPENING.match(text)
    if match:
        seq = int(match[1]) if match[1] else None
        source, name = _BY_NAME.get(match[2]), match[3] or ""
        if source in _SPEAKERS and name:
            speakers[name] = source
        elif not source and not name:
            source, name = speakers.get(match[2]), match[2]
        if source and (seq is None) == (source is Source.EARLIER):
            return Line(seq, source, name, settled=True), text[match.end() :]
    return Line(None, Source.EARLIER, settled=True), text


def _groups(body: str) -> Iterator[Flat]:
    for group in body.split(GROUP_MARK):
        label = _LABEL.match(group)
        rest = group[label.end() :] if label else group
        pairs = (pair.partition("=") for pair in _PAIR_START.split(rest))
        found = tuple(
            (key, value) if mark and key else ("", key + mark + value) for key, mark, value in pairs
        )
        yield Flat(label[1] if label else "", found)
