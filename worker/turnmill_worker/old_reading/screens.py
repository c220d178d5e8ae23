"""Screens an agent saw, whose parts are told by numbers: `[24]: <button> "Next"`.

A number holds for one screen only. So an order is told with what its number named, and of a screen
that is past what was new on it, without numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from turnmill_worker.old_reading.outcomes import blocks, is_telling, telling_lines
from turnmill_worker.old_reading.sentences import one_line

__all__ = ["NO_SCREEN", "References", "Screen", "read_screen", "without_references"]

_ITEM = re.compile(
    r"(?:^|(?<=[\s;]))\[(\d{1,5})\][ \t]{0,4}:?[ \t]{0,4}(?=<[A-Za-z]|\"|\w{1,20} ['\"])",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,80}>")
_QUOTED = re.compile(r"\"([^\"\n]{1,200})\"")
_NAMES = re.compile(r"\w")
_NUMBER = re.compile(r"\[(\d{1,5})\]")
_LEAST: Final = 6
"""Fewer parts are a list of sources, or notes."""

_LONGEST: Final = 80
_SHOWN: Final = "screen: "
_MOST_TOLD: Final = 6


class Screen(NamedTuple):
    """What was on a screen.

    Attributes:
        parts: by their numbers.
        said: lines beside them that tell an outcome.
    """

    parts: dict[str, str]
    said: tuple[str, ...]

    def named(self, text: str) -> str:
        """A text, in which the numbers of this screen are what they stood for."""
        return _NUMBER.sub(self._name, text) if self.parts else text

    def _name(self, number: re.Match[str]) -> str:
        part = self.parts.get(number[1], "")
        return f'"{part}"' if part else number[0]

    def outcome(self, before: Screen) -> tuple[str, list[str]]:
        """What was new on it, on one line; and all of that in blocks, if it is more."""
        known = frozenset(before.parts.values())
        new = list(dict.fromkeys(part for part in self.parts.values() if part not in known))
        shown = ", ".join(f'"{part}"' for part in new[:_MOST_TOLD])
        if not known:
            told = f"a screen of {len(self.parts)} parts"
        elif new:
            told = f"new on the screen: {shown}{', …' if len(new) > _MOST_TOLD else ''}"
        else:
            told = "nothing new on the screen"
        more = not known or len(new) > _MOST_TOLD
        quoted = [f"{_SHOWN}{block}" for block in blocks(new)] if more else []
        return " / ".join([*self.said, told]), quoted


NO_SCREEN: Final = Screen({}, ())


def read_screen(text: str) -> Screen | None:
    """The screen an output shows; None if its parts have no numbers."""
    found = list(_ITEM.finditer(text))
    if len({item[1] for item in found}) < _LEAST:
        return None
    parts = dict(_parts(text, found))
    beside = telling_lines(text[: found[0].start()])
    return Screen(parts, tuple(line for line in beside if is_telling(line)))


def _parts(text: str, found: Iterable[re.Match[str]]) -> Iterator[tuple[str, str]]:
    places = list(found)
    ends = [*(item.start() for item in places[1:]), len(text)]
    for item, end in zip(places, ends, strict=True):
        own = text[item.end() : end].partition("\n")[0]
        quoted = _QUOTED.findall(own)
        names = [*filter(_NAMES.search, quoted)] if quoted else [_TAG.sub(" ", own)]
        name = one_line(", ".join(names)).strip("; ")[:_LONGEST]
        if _NAMES.search(name):
            yield item[1], name


_HANDLE: Final = r"(?:f\d{1,3})?e\d{1,5}"
_REFERRED = re.compile(r"[ \t]?\[ref=(\w{1,12})\]")
_STATES = re.compile(r"(?:[ \t]?\[[\w=-]{1,30}\]){1,6}$")
_QUOTES_NAME = re.compile(r"(?:^|\n|[-,] )(?:\w{1,20} ){1,2}(['\"])(?:(?!\1)[^\n]){1,90}\1$")
_BEFORE: Final = 130
_MOST_KNOWN: Final = 2_000
_IN_JSON: Final = str.maketrans({'"': "'", "\\": None})
"""What would end a string of JSON, or mean something else in it."""

_ASKED = re.compile(rf'("(?:ref|startRef|endRef|target)"\s{{0,4}}:\s{{0,4}}")({_HANDLE})"')
_UNKNOWN: Final = "?"


class References:
    """Parts of pages by the references that a browser's tool gives them: ``button "Buy" [ref=e7]``.

    A later page gives them anew: what was done is told with what they stood for by then.
    """

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}

    def read(self, text: str) -> str:
        """The text without references, which are known from now on."""
        if "[ref=" not in text:
            return text
        for found in islice(_REFERRED.finditer(text), _MOST_KNOWN):
            before = text[max(0, found.start() - _BEFORE) : found.start()]
            states = _STATES.search(before)
            before = before[: states.start()] if states else before
            quoted = _QUOTES_NAME.search(before)
            name = quoted[0] if quoted else before[1 + max(map(before.rfind, "\n],")) :]
            name = name.strip("-:, \n")
            named = _NAMES.search(name) is not None
            self._parts[found[1]] = one_line(name.translate(_IN_JSON))[:_LONGEST] if named else ""
        return _REFERRED.sub("", text)

    def named(self, arguments: str) -> tuple[str, tuple[str, ...]]:
        """The arguments of a call, in JSON, with names in place of references; and these.

        A reference to a part that nobody has read of here is told as "?".
        """
        refers = tuple(found[2] for found in _ASKED.finditer(arguments)) if self._parts else ()
        return (_ASKED.sub(self._named, arguments) if refers else arguments), refers

    def _named(self, asked: re.Match[str]) -> str:
        return f'{asked[1]}{self._parts.get(asked[2]) or _UNKNOWN}"'


def without_references(answer: str, refers: Sequence[str]) -> str:
    """An answer to a call that was given these references: there each is what it was done to."""
    own = "|".join(map(re.escape, refers))
    return re.sub(rf"(?<![\w./@-])(?:{own})(?![\w/@-]|\.\w)", "it", answer)
