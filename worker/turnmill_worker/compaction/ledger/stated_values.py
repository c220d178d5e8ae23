"""What messages state that prose must not paraphrase: identifiers, paths, amounts, commands.

Reads the same units the extractive summarizer chooses from, so JSON is flattened, data URLs are
gone, no unit is longer than a few hundred characters, and reading stays linear on any input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from turnmill_worker.compaction.ledger.labels import labelled
from turnmill_worker.compaction.ledger.patterns import KINDS, Kind, values_in
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.units import (
    CAME_OF_IT,
    LABEL,
    LINE_END,
    TALK,
    Line,
    Source,
    Unit,
    Units,
    is_prompt,
)
from turnmill_worker.old_reading.words import CODE, identifies, kind_of

__all__ = ["KINDS", "Kind", "Mention", "mentions"]

_LONGEST: Final = 160
"""Characters of a command or error line; its beginning says what it is."""


class Mention(NamedTuple):
    """One statement of a value.

    Attributes:
        text: as written.
        label: its nearest words; ``owner: key`` where it was a field.
        seq, source: the message it is from, and whose words these are.
        replaces: the label is precise enough that a newer value replaces an older one.
    """

    kind: Kind
    text: str
    label: str
    seq: int
    source: Source
    replaces: bool = False


def mentions(found: Units) -> Iterator[Mention]:
    """Every value worth keeping word for word, in conversation order."""
    # What was only looked at, or written to a file, can be read there again.
    lasting = (unit for unit in found.units if unit.role not in _ELSEWHERE)
    at, root = -1, ""
    for _, members in groupby(lasting, key=lambda unit: unit.group):
        own = list(members)
        line = found.lines[own[0].line]
        if is_prompt(line, len(own)):
            continue
        if own[0].line != at:
            at, root = own[0].line, ""
        owner = _NOBODY if all(unit.is_prose for unit in own) else _owner(own, line, root)
        if not own[0].label:
            root = owner.name if owner.is_identifier else ""
        for unit in own:
            if unit.is_prose:
                yield from _of_prose(unit.text, line)
                continue
            # Beside a call's field may stand what the tool answered: no words of the call.
            is_call = line.source is Source.CALL
            pair, _, answer = unit.text.partition(CAME_OF_IT) if is_call else (unit.text, "", "")
            field = unit if pair == unit.text else unit._replace(text=pair)
            yield from _of_pair(field, line, owner)
            if answer:
                yield from _of_prose(answer, replace(line, source=Source.RESULT))


_ELSEWHERE: Final = frozenset({Role.LOOK, Role.WRITTEN, Role.QUOTATION})


# --- fields -----------------------------------------------------------------------------------

_NAMING: Final = ("name", "title", "subject", "label", "file", "path")
_SHELL: Final = frozenset({"command", "cmd", "bash", "script"})
_MONEY_KEYS = re.compile(r"price|amount|cost|total|balance|fee|refund", re.IGNORECASE)
_IDENTIFYING = re.compile(r"#?(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z]\w{3,}")
_BARE_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose field it is: an object's name or identifier, or a call's name.

    Attributes:
        of: what the object belongs to: the record it hangs in, or what was asked for it.
    """

    name: str
    is_identifier: bool = False
    of: str = ""


_NOBODY: Final = _Owner("")


def _owner(units: Sequence[Unit], line: Line, root: str) -> _Owner:
    if line.source is Source.CALL:
        return _Owner(line.name)
    pairs = [(unit.text[: unit.body_at - 1], unit.text[unit.body_at :]) for unit in units]
    named = [value for key, value in pairs if key in _NAMING and len(value) <= _LONGEST // 4]
    if named:
        return _Owner(named[0])
    keyed = [value for key, value in pairs if identifies(key, value)]
    if keyed and _is_telling(keyed[0]):
        # One card pays for many orders: what hangs in another record has a value in each.
        return _Owner(keyed[0], is_identifier=not units[0].label, of=root if units[0].label else "")
    # A flight, say, is named by its number, wherever it was listed.
    numbered = [value for _, value in pairs if _is_number_of_something(value)]
    if numbered and not (units[0].label and _IDENTIFYING.search(units[0].label)):
        return _Owner(numbered[0], of=root or line.name)
    return _Owner(units[0].label or line.name)


def _is_telling(identifier: str) -> bool:
    """Whether it can be told from an amount where it stands alone."""
    return not identifier.isdigit() or kind_of(identifier) == CODE


def _is_number_of_something(value: str) -> bool:
    """Whether a whole value is an identifier with letters and digits, like ``HAT069``."""
    return len(value) <= _LONGEST // 4 and _IDENTIFYING.fullmatch(value) is not None


def _of_pair(unit: Unit, line: Line, owner: _Owner) -> Iterator[Mention]:
    key, value = unit.text[: unit.body_at - 1], unit.text[unit.body_at :]
    own = value == owner.name
    whose = owner.of if own else owner.name
    label = f"{whose}: {key}" if whose else key
    seq = line.seq or 0
    if key in _SHELL and line.source is Source.CALL:
        yield Mention("command", _beginning(value), line.name, seq, line.source)
        return
    is_number = len(value) > 1 and _BARE_NUMBER.fullmatch(value) is not None
    is_money = is_number and _MONEY_KEYS.search(key) is not None
    settled = is_number and (is_money or ("." in value and value[0] != "-"))
    found = [] if settled else values_in(value)
    if is_number and not found:
        found = [("money" if is_money else "number", value, 0)]
    for kind, text, _ in found:
        replaces = owner.is_identifier and not own and len(found) == 1
        yield Mention(kind, text, label, seq, line.source, replaces)


# --- sentences --------------------------------------------------------------------------------

_COMMAND = re.compile(
    r"(?:\$ |>>> )\S|(?:sudo |git |pip3? |npm |npx |yarn |docker |kubectl |curl |make |python3? "
    r"|cargo |go (?:run|test|build) |apt(?:-get)? |brew |pytest |rm |mv |cp |cd |ls |cat |grep "
    r"|sed |ssh )[\w./~$'\"-]"
)
_ERROR = re.compile(
    r"\b[A-Z]\w{0,40}(?:Error|Exception|Warning)\b|^(?:error|fatal|panic|failed)\b|\berror:"
    r"|\b(?:exit (?:code|status)|errno) -?\d|\bHTTP [45]\d\d\b",
    re.IGNORECASE,
)
_ERROR_WORDS: Final = (
    *("error", "exception", "warning", "fatal", "panic", "failed", "exit ", "errno", "http "),
)
_LENGTH = re.compile(r"\d[\d,]* lines")
"""How long a file or an output is: nobody asks for that again."""

_STARTS: Final = (CAME_OF_IT, " / ", LINE_END, ". ")
_VALUES: Final[tuple[Kind, ...]] = ("number", "money", "date")


def _of_prose(text: str, line: Line) -> Iterator[Mention]:
    seq = line.seq or 0
    if _COMMAND.match(text) and not text.endswith((".", "?", "!")):
        yield Mention("command", _beginning(text), "", seq, line.source)
        return
    tool = line.source not in TALK
    if tool and (error := _error(text)):
        yield Mention("error", _around(text, error.start()), "", seq, line.source)
    label = LABEL.match(text)
    # What a text is called in capitals, "DECISION: …", is no identifier.
    called = label.end() if label else 0
    found = [
        one
        for one in values_in(text)
        if (one[2] >= called or not one[1].isalpha()) and not (tool and _LENGTH.fullmatch(one[1]))
    ]
    if not found:
        return
    labels = labelled(text, [(at, at + len(value)) for _, value, at in found])
    for (kind, value, _), (near, company) in zip(found, labels, strict=True):
        yield Mention(kind, value, near, seq, line.source, kind in _VALUES and company > 1)


def _error(text: str) -> re.Match[str] | None:
    # Other letters have cases of their own, which only the expression knows.
    low = text.lower() if text.isascii() else ""
    return None if low and not any(map(low.__contains__, _ERROR_WORDS)) else _ERROR.search(text)


def _around(text: str, at: int) -> str:
    """The line or sentence a place is in, if that begins near; whole words of it."""
    starts = [text.rfind(mark, 0, at) + len(mark) for mark in _STARTS if mark in text[:at]]
    start = max(starts, default=0)
    if at - start > _LONGEST // 2:
        start = text.find(" ", at - _LONGEST // 2) + 1
    return _beginning(text[start:])


def _beginning(text: str) -> str:
    """As much of a text as is kept, in whole words: a torn one would be found in no prose."""
    if len(text) <= _LONGEST:
        return text
    end = text.rfind(" ", _LONGEST // 2, _LONGEST + 1)
    return text[: end if end > 0 else _LONGEST]
