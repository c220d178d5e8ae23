"""What calls passed and returned as things: all that is known of one is a row of a table."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.wanted import (
    ASKED,
    CAMEL,
    PASSED,
    PRINTED,
    SAID,
    VALUE,
    Wanted,
    letters,
    values_of,
)
from turnmill_worker.reading.words import CODE, UNSPACED, kind_of

LEAST: Final = 8
"""Things that have to be told apart before calls are shown as a table."""

TURNS: Final = 4
"""Turns that a table comes from at least: what one search lists is no work."""

MOST_TEXT: Final = 64
"""Characters of what can name a thing."""

DETAILS: Final = 3
"""Values of its own from which on a record is a thing, and lists in it are parts of that."""

OPENING: Final = 4
"""Tokens that open a row, for each of few cells."""

LIST: Final = "\x03"
"""What stands between a tool's name and the list of its results."""


class Stands(NamedTuple):
    """Where fields stand: a turn, its groups, their names; ``whole``: nothing else stands there."""

    seq: int
    first: int
    last: int
    names: tuple[str, ...]
    whole: bool


@dataclass(slots=True)
class Record:
    """One call and what it returned, or one record of that.

    Attributes:
        done: the turn of the result; 0 while there is none.
        lines: of what was printed, those that may be what came out.
        places: where that stands.
    """

    seq: int
    passed: dict[str, str]
    returned: dict[str, str] = field(default_factory=dict)
    done: int = 0
    lines: tuple[str, ...] = ()
    places: list[Stands] = field(default_factory=list)

    def stored(self) -> list[Any]:
        """As plain JSON values."""
        return [self.seq, self.passed, self.returned, self.done, self.lines, self.places]

    @classmethod
    def restored(cls, stored: Sequence[Any]) -> Record:
        """What was stored."""
        seq, passed, returned, done, lines, places = stored
        found = [Stands(at, a, b, tuple(names), whole) for at, a, b, names, whole in places]
        return cls(seq, dict(passed), dict(returned), done, tuple(lines), found)

    def value(self, name: str) -> str:
        """The value of a column."""
        return self.passed.get(name[1:], "") if name[:1] == PASSED else self.returned.get(name, "")

    def size(self) -> int:
        """About how many tokens it takes to keep."""
        held = sum(len(own) for part in (self.passed, self.returned) for own in part.values())
        return (held + sum(map(len, self.lines))) // 4 + OPENING


class Told(NamedTuple):
    """A sentence that may say something about a thing."""

    seq: int
    by_user: bool
    text: str


@dataclass(slots=True)
class Thing:
    """All that is known of one thing: a row before its columns are chosen."""

    key: str
    seqs: list[int] = field(default_factory=list)
    done: int = 0
    cells: dict[str, str] = field(default_factory=dict)
    places: list[Stands] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    newest: dict[str, tuple[Record, float]] = field(default_factory=dict)


def named_by(
    tool: str, path: str, records: Sequence[Record], asks: Wanted
) -> Iterable[tuple[str, str, dict[int, str]]]:
    """By which column the records of a tool name things, and how each is called."""
    rest = list(range(len(records)))
    while len(rest) >= LEAST and (key := _key([records[at] for at in rest], path, asks)):
        values = {at: value for at in rest if (value := records[at].value(key))}
        if len({records[at].done or records[at].seq for at in values}) < TURNS - bool(path):
            return
        yield from _by_command(f"{tool}{LIST}{path}" if path else tool, key, values)
        rest = [at for at in rest if at not in values]


def _by_command(
    name: str, key: str, values: dict[int, str]
) -> Iterable[tuple[str, str, dict[int, str]]]:
    """Things that are commands, apart by what they run."""
    first = Counter(value.split(None, 1)[0] for value in values.values() if " " in value)
    commands = [word for word, times in first.items() if times >= LEAST and not word[0].isupper()]
    if 2 * sum(map(first.__getitem__, commands)) < len(values):
        yield name, key, values
        return
    for word in commands:
        own = _varying(
            {at: value for at, value in values.items() if value.split(None, 1)[0] == word}
        )
        if len(set(own.values())) >= LEAST:
            yield f"{name} {word}", key, own


def _varying(values: Mapping[int, str]) -> dict[int, str]:
    """Commands without the words that most of them have."""
    times = Counter(word for value in values.values() for word in set(value.split()))
    usual = {word for word, n in times.items() if n > max(2, len(values) / 5)}
    return {
        at: " ".join(word for word in value.split() if word not in usual) or value
        for at, value in values.items()
    }


def _key(records: Sequence[Record], path: str, asks: Wanted) -> str:
    """The column by which records name things; "" if none does."""
    held: dict[str, list[str]] = defaultdict(list)
    for own in records:
        for name, value in own.passed.items():
            held[f"{PASSED}{name}"].append(value)
        for name, value in own.returned.items():
            if name:
                held[name].append(value)
    best, found = 0.0, ""
    for name, values in held.items():
        kinds = set(values)
        short = [value for value in kinds if value and len(value) <= MOST_TEXT]
        if len(short) < max(LEAST, 0.5 * len(records)) or len(short) < 0.8 * len(kinds):
            continue
        passed = name[:1] == PASSED
        score = 2.0 * (len(kinds) >= 0.9 * len(values)) + 1.0 * (passed != bool(path))
        score += sum(map(_tells, short)) / len(short)
        score += sum(not asks.spoken.isdisjoint(values_of(own)) for own in short) / len(short)
        if score > best + 1e-9:
            best, found = score, name
    return found


@lru_cache(maxsize=1 << 12)
def _tells(value: str) -> float:
    """How much a value looks like what a thing is called by."""
    if _AMOUNT.fullmatch(value):
        return 0.3 if value.isdigit() else 0.0
    return 1.0 if kind_of(value) == CODE else 0.7 if value.count(" ") < 4 else 0.2  # noqa: PLR2004


_AMOUNT = re.compile(r"\W*\d[\d.,:]*\W?[^\W\d]{0,4}(?:/\w{1,4})?|\W*[\d.,:/ -]*|[\d-]+T[\d:.]+Z?")


def same(found: Mapping[str, Mapping[str, object]], title: str, keys: set[str]) -> str:
    """The table that is already there for such things."""
    if title in found:
        return title
    for name, things in found.items():
        if 2 * len(keys & things.keys()) > min(len(keys), len(things)):
            return name
    return ""


def add_things(
    things: dict[str, list[Thing]],
    tool: str,
    records: Sequence[Record],
    named: Mapping[int, str],
) -> None:
    """Records as rows: of the same call the later counts, another call is a row of its own."""
    usual = Counter(name for own in records for name in own.returned)
    for at, name in named.items():
        own = records[at]
        full = sum(map(usual.__getitem__, own.returned)) + 0.5 * len(records) * bool(own.lines)
        rows = things.setdefault(name, [])
        thing = next(
            (
                row
                for row in rows[::-1]
                if tool not in row.newest or _again(row.newest[tool][0], own, tool)
            ),
            None,
        )
        if thing is None:
            thing = Thing(name)
            rows.append(thing)
        thing.seqs.append(max(own.seq, own.done))
        thing.done = max(thing.done, own.done)
        thing.places.extend(own.places)
        before = thing.newest.get(tool)
        if before is None or 2 * full >= before[1]:
            thing.newest[tool] = own, full


def is_detail(around: Sequence[Record]) -> bool:
    """Whether lists are parts of things that have values of their own."""
    held: dict[str, set[str]] = defaultdict(set)
    for own in around:
        for name, value in own.returned.items():
            if value not in own.passed.values():
                held[name].add(value)
    return sum(2 * len(values) >= len(around) for values in held.values()) >= DETAILS


def is_work(rows: Sequence[Thing], asks: Wanted) -> bool:
    """Whether things were worked through one by one, or their values were asked for."""
    if not is_listed(rows):
        return True
    names = {name for own in rows for name in own.cells if name[:1] != PASSED}
    held = {name: [own.cells[name] for own in rows if own.cells.get(name)] for name in names}
    return any(asks.asked(name, values) >= ASKED for name, values in held.items() if values)


def is_listed(rows: Sequence[Thing]) -> bool:
    """Whether all of them are only entries of lists."""
    return all(LIST in tool for own in rows for tool in own.newest)


def _again(before: Record, now: Record, tool: str) -> bool:
    """Whether a call is the same once more."""
    if LIST in tool:
        return True
    return all(now.passed.get(name, value) == value for name, value in before.passed.items())


def settle(own: Thing, asks: Wanted) -> None:
    """The cells of a thing, from what counts of each tool."""
    for record, _ in own.newest.values():
        passed = {k: v for k, v in record.passed.items() if own.key not in v}
        returned = {
            ("" if own.key in k or k in passed.values() else k): v
            for k, v in ((k, v if k else _bare(v)) for k, v in record.returned.items())
            if v != own.key and record.passed.get(k) != v
        }
        own.cells.update({f"{PASSED}{k}": v for k, v in passed.items()})
        own.cells.update(returned)
    named = {
        name: value for name, value in own.cells.items() if name[:1] not in {PASSED, SAID, PRINTED}
    }
    told = letters(" ".join(word for pair in named.items() for word in pair))
    for record, _ in own.newest.values():
        lines = asks.lines(record.lines, own.key)
        if named:
            lines = [line for line in lines if _adds(line, told, asks)]
        if lines:
            own.cells[PRINTED] = _without(" ".join(map(_bare, lines)), own.key)
            own.texts.extend(lines)


def _adds(line: str, told: frozenset[str], asks: Wanted) -> bool:
    """Whether a printed line gives a value that was asked for and stands under no name."""
    if not VALUE.search(line) or _CODE.search(_bare(line)):
        return False
    return any(map(asks.asks, letters(line) - told))


_CODE = re.compile(r"\w\(|[{};]|==")


def _bare(line: str) -> str:
    """A printed line without the time that opens it, and what is drawn around it."""
    line = _CLOCK.sub("", line)
    for mark in "=-*#_~":
        line = line.strip(mark).strip() if mark * 3 in line else line
    return line


def leaf(name: str) -> str:
    """The last part of a name; another column of that kind was less asked for."""
    return name.rpartition(".")[2]


_CLOCK = re.compile(r"^[\[(]?[\dTZ:.,/+-]{5,32}(?: [\d:.,]{5,16})?[\])]?[\s:|-]+")
"""What opens a line of a log."""


def leaves(rows: Sequence[Thing]) -> None:
    """Calls values that stand in several forms of a record by the last part of their names."""
    paths: dict[str, set[str]] = defaultdict(set)
    twice: set[str] = set()
    for own in rows:
        times = Counter(map(leaf, own.cells))
        twice.update(last for last, met in times.items() if met > 1)
        for name in own.cells:
            paths[leaf(name)].add(name)
    shared = {last for last, names in paths.items() if len(names) > 1} - twice
    for own in rows if shared else ():
        own.cells = {(leaf(k) if leaf(k) in shared else k): v for k, v in own.cells.items()}


@lru_cache(maxsize=4096)
def _said_words(text: str) -> frozenset[str]:
    """What may name a thing in a sentence."""
    return frozenset(_WORD.findall(text))


def add_said(rows: Sequence[Thing], told: Sequence[Told]) -> None:
    """Puts what was said about a thing after its result into its row; what the user says counts."""
    things: dict[str, Thing] = {own.key: own for own in rows}
    heads: dict[str, list[str]] = defaultdict(list)
    for key in things:
        if m := _WORD.search(key):
            heads[m[0]].append(key)
    for seq, by_user, text in told:
        unspaced = UNSPACED.search(text) is not None
        if not unspaced and heads.keys().isdisjoint(_said_words(text)):
            continue
        found = [
            key
            for at in _WORD.finditer(text)
            for key in heads.get(at[0], ())
            if text.startswith(key[_WORD.search(key).start() :], at.start())  # type: ignore[union-attr]
        ] or ([key for key in things if key in text] if unspaced else [])
        if len(set(found)) != 1 or len(found[0]) < 2:  # noqa: PLR2004
            continue
        own = things[found[0]]
        rest = _without(text, own.key)
        if not own.done or seq <= own.done or not values_of(rest) or rest.rstrip("* ")[-1:] == ":":
            continue
        if by_user and _corrected(own, rest, seq):
            continue
        own.cells[SAID] = f"user: {rest}" if by_user else rest
        own.seqs.append(seq)
        own.texts.append(text)


_WORD = re.compile(r"\w+")


def _corrected(own: Thing, said: str, seq: int) -> bool:
    """Whether a sentence gives a cell another value, which then stands there."""
    values = [value for value in VALUE.findall(said) if value not in own.key]
    words = letters(said)
    for name, cell in own.cells.items():
        held = VALUE.findall(cell)
        parts = letters(CAMEL.sub(" ", leaf(name)))
        if name == SAID or len(held) != 1:
            continue
        new = [value for value in values if value != held[0] and kind_of(value) == kind_of(held[0])]
        if new and (held[0] in values or (parts and parts <= words)):
            own.cells[name] = f"{cell.replace(held[0], new[0])} (turn {seq}, was {held[0]})"
            own.seqs.append(seq)
            return True
    return False


def _without(text: str, key: str) -> str:
    """A sentence without the name of the thing that its row is of."""
    before, _, after = text.partition(key)
    if before.strip(" *-•#") or after[:1].isalnum():
        return text.rstrip(".")
    return after.lstrip(" *:：,;-–—=>").rstrip(".")
