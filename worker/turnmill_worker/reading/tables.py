"""Calls and results of the same shape as tables: one header, one short row for each thing.

All calls of a tool, with what they returned, are records. An argument that differs from call to call
says which thing a record is of; tools that name the same things by the same argument fill one table.
Which columns stand is chosen by what they are worth for what they cost in all rows together, so that
many narrow rows come before few wide ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Passage, Reading
from turnmill_worker.reading.words import CAPS, CODE, KEY, KIND, KNOWN, PLAIN, concepts, number

TABLE: Final = 9
"""The role of a reading that is a table; its passages are rows."""

LEAST: Final = 8
"""Things that have to be told apart before calls are shown as a table."""

MOST_TEXT: Final = 64
"""Characters of what can name a thing."""

NAMED, VALUES_NAMED, PASSED, SAID, SPOKEN, VARIES = 1.0, 0.6, 0.8, 2.5, 0.5, 0.15
"""What a column is worth whose name, or values, the user says; that calls pass; that is the
assistant's own words; whose values are spoken of elsewhere; and that takes few values."""

BRIEF: Final = 24
"""Characters of a value that is passed on purpose; longer ones are texts."""

SPARE: Final = 4
"""Columns that do not stand and are kept for later."""

ASIDE: Final = 4
LETTERS: Final = 4
OPENING: Final = 4
"""Tokens that open a row, for each of few cells."""

MUST, CHEAP = 0.75, 0.52
"""Of the best column's worth, and rank, from which on a column stands if rows have to leave for it."""

CORE: Final = 0.6
"""Of the best column's worth, from which on a column comes before all that are worth less."""

WHOLE, SHARE = 0.95, 0.6
"""Of a budget, what all rows may take with such columns, and with others."""

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Stands(NamedTuple):
    """Where fields stand: a turn, its groups, and their names; ``whole``: nothing else stands there."""

    seq: int
    first: int
    last: int
    names: tuple[str, ...]
    whole: bool


@dataclass(slots=True)
class Record:
    """One call and what it returned; ``places``: where else that stands, and which fields of it."""

    seq: int
    passed: dict[str, str]
    returned: dict[str, str] = field(default_factory=dict)
    places: list[Stands] = field(default_factory=list)
    done: int = 0


class Entity(NamedTuple):
    """All that is known of one thing: a row before its columns are chosen."""

    key: str
    seqs: list[int]
    tools: set[str]
    cells: dict[str, str]
    places: list[Stands]
    texts: list[str]
    said: set[str]


class Column(NamedTuple):
    """A column of a table, what it is worth, and its tokens in every row."""

    table: str
    name: str
    worth: float
    costs: dict[int, int]

    def rank(self) -> float:
        """The order in which columns are taken."""
        return self.worth**2 / (sum(self.costs.values()) / len(self.costs) + OPENING)


@dataclass(slots=True)
class Tables:
    """The records of a session.

    Attributes:
        asked: words of the user's, and the numbers of their stems.
        left: records that were given up, by table and tool.
    """

    count: Callable[[str], int]
    records: dict[str, list[Record]] = field(default_factory=dict)
    pending: dict[str, Record] = field(default_factory=dict)
    asked: set[str | int] = field(default_factory=set)
    spoken: set[int] = field(default_factory=set)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)

    def stored(self) -> Any:
        return {"records": {k: [[o.seq, o.passed, o.returned, o.places, o.done] for o in v] for k, v in self.records.items()},
                "asked": sorted(self.asked, key=str), "spoken": sorted(self.spoken), "left": [[*k, n] for k, n in self.left.items()]}

    @classmethod
    def restored(cls, values: Any, count: Callable[[str], int]) -> Tables:
        if not values:
            return cls(count)
        return cls(count, {k: [Record(a, p, r, [Stands(x[0], x[1], x[2], tuple(x[3]), x[4]) for x in pl], d) for a, p, r, pl, d in v] for k, v in values["records"].items()},
                   {}, set(values["asked"]), set(values["spoken"]), Counter({(a, b): n for a, b, n in values["left"]}))

    @staticmethod
    def up_to(values: Any, watermark: int) -> Any:
        return values and {**values, "records": {k: [o for o in v if max(o[0], o[4]) <= watermark] for k, v in values["records"].items()}}

    def add(self, reading: Reading) -> None:
        """Takes over the cells of a message, and the words people say in it."""
        for cells in reading.cells:
            if cells.tool:
                record = Record(reading.seq, cells.fields)
                self.pending[cells.call] = record
                self.records.setdefault(cells.tool, []).append(record)
            elif record := self.pending.pop(cells.call, None):
                record.returned, record.done = cells.fields, reading.seq
            else:
                continue
            if cells.whole or not cells.tool:
                last = cells.last if cells.whole else cells.first + 1
                record.places.append(Stands(reading.seq, cells.first, last, tuple(cells.fields), cells.whole))
        for own in reading.passages:
            if own.source == r.USER:
                words = {*_WORDS.findall(own.text.lower())} - self.asked
                self.asked.update(words, map(KNOWN.word, words))
            if own.source in {r.USER, r.CALL, r.ASSISTANT}:
                self.spoken.update([each for each in own.ids if each & KIND == CODE])

    def build(self, until: int, budget: int, said: Iterable[tuple[int, str, tuple[str, ...]]]) -> Built:
        """The tables of all records up to a turn."""
        tables = self._joined(until)
        things = {own.key: own for rows in tables.values() for own in rows}
        for seq, text, slots in said:
            key = next((slot for slot in slots if slot in things), None)
            if key and seq <= until:
                own = things[key]
                own.seqs.append(seq)
                own.texts[:] = [text]
                own.cells[_SAID] = _without(text, key)
        chosen, others = self._columns(tables, budget)
        readings = [self._rendered(name, tables[name], columns, budget) for name, columns in chosen.items() if columns]
        covered: dict[int, list[Covered]] = defaultdict(list)
        for name, columns in chosen.items():
            shown = {column.lstrip(_PASSED) for column in columns}
            for own in tables[name] if columns else ():
                for place in own.places:
                    names = [] if place.whole else [each for each in place.names if each in shown or each in own.said]
                    if names or place.whole:
                        fields = frozenset(number(6, each) for each in names)
                        covered[place.seq].append(Covered(place.first, place.last, fields))
        kept = [own for name, columns in chosen.items() if _SAID in columns for own in tables[name]]
        keep = {name: [*columns, *others.get(name, ())] for name, columns in chosen.items() if columns}
        return Built([each for each in readings if each.passages], covered, {text for own in kept for text in own.texts}, keep)

    def trim(self, until: int, shown: Mapping[str, Sequence[str]], tokens: int) -> None:
        """Forgets what no later table will show: columns of little worth, and the oldest rows of too many."""
        names = {column.lstrip(_PASSED) for columns in shown.values() for column in columns}
        for tool, records in self.records.items():
            key = _key(records)
            room, kept = tokens if key in shown else tokens // ASIDE, []
            for own in reversed(records):
                if key in shown and own.seq <= until and own.done <= until:
                    own.passed = {k: v for k, v in own.passed.items() if k == key or k in names}
                    own.returned = {k: v for k, v in own.returned.items() if k in names or v == own.passed.get(key)}
                room -= sum(len(v) for part in (own.passed, own.returned) for v in part.values()) // LETTERS + OPENING
                if room < 0 and own.seq <= until:
                    break
                kept.append(own)
            if key in shown:
                self.left[key, tool] += len(records) - len(kept)
            self.records[tool] = kept[::-1]
        self.pending = {call: own for call, own in self.pending.items() if own.seq > until}

    def _joined(self, until: int) -> dict[str, list[Entity]]:
        """The rows of each table, by what their things are called; of tools that have enough of them."""
        found: dict[str, list[Entity]] = {}
        newest: dict[tuple[str, str], Entity] = {}
        for tool, records in self.records.items():
            records = [own for own in records if own.seq <= until and own.done <= until]
            if not (key := _key(records)):
                continue
            for own in records:
                if not (named := own.passed.get(key)):
                    continue
                thing = newest.get((key, named))
                if thing is None or tool in thing.tools:
                    thing = newest[key, named] = Entity(named, [], set(), {}, [], [], {key})
                    found.setdefault(key, []).append(thing)
                thing.tools.add(tool)
                thing.seqs.append(max(own.seq, own.done))
                thing.cells.update({f"{_PASSED}{k}": v for k, v in own.passed.items() if k != key})
                thing.cells.update({k: v for k, v in own.returned.items() if v != named and own.passed.get(k) != v})
                thing.places.extend(own.places)
                thing.said.update(k for k, v in own.returned.items() if v == named or own.passed.get(k) == v and f"{_PASSED}{k}" not in thing.cells)
        return found

    def _columns(self, tables: Mapping[str, list[Entity]], budget: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The columns of each table: the core of each, and more while all rows fit; and the next best."""
        columns = [own for name, rows in tables.items() for own in self._weighed(name, rows)]
        best = {own.table: max(each.worth for each in columns if each.table == own.table) for own in columns}
        core = {own[:2] for own in columns if own.worth >= max(NEEDED, CORE * best[own.table])}
        dense = {name: max(own.rank() for own in columns if own.table == name) for name in best}
        must = {
            own[:2] for own in columns
            if own[:2] in core and own.worth >= MUST * best[own.table] and own.rank() >= CHEAP * dense[own.table]
        }  # fmt: skip
        keys = {name: sum(self.count(f"\n{own.seqs[-1]} {own.key}") for own in rows) for name, rows in tables.items()}
        chosen: dict[str, list[str]] = {name: [] for name in tables}
        others: dict[str, list[str]] = defaultdict(list)
        told: dict[str, set[int]] = defaultdict(set)
        spent = 0
        while columns:
            rank = []
            for own in columns:
                gain, cost = self._gain(own, tables[own.table], told), sum(own.costs.values())
                rank.append((own[:2] in core, own.worth * gain / (cost + OPENING * len(own.costs)), gain, cost))
            at = max(range(len(rank)), key=rank.__getitem__)
            own, (first, _, gain, cost) = columns.pop(at), rank[at]
            cost += 0 if chosen[own.table] else keys[own.table]
            forced = own[:2] in must
            if gain <= 0 or not forced and spent + cost > (WHOLE if first else SHARE) * budget:
                if len(others[own.table]) < SPARE and own.worth > VARIES:
                    others[own.table].append(own.name)
                continue
            spent += cost
            chosen[own.table].append(own.name)
            for row in own.costs:
                thing = tables[own.table][row]
                told[thing.key].update(_values(thing.cells[own.name]))
        return chosen, others

    def _gain(self, column: Column, rows: Sequence[Entity], told: Mapping[str, set[int]]) -> float:
        """What a column adds in all rows that its things' other columns do not say."""
        new = 0.0
        for at in column.costs:
            ids = _values(rows[at].cells[column.name])
            new += len(ids - told[rows[at].key]) / len(ids) if ids else 0.0
        return column.worth * new if new >= RARELY * len(column.costs) else 0.0

    def _weighed(self, table: str, rows: Sequence[Entity]) -> list[Column]:
        """The columns of a table that are worth anything."""
        held: dict[str, dict[int, str]] = defaultdict(dict)
        for at, own in enumerate(rows):
            for name, value in own.cells.items():
                held[name][at] = value
        found = []
        for name, values in held.items():
            worth = self._worth(name, list(values.values()))
            if worth > 0:
                found.append(Column(table, name, worth, {at: self.count(f" | {own}") for at, own in values.items()}))
        return found

    def _worth(self, name: str, values: Sequence[str]) -> float:
        """What a column is worth to somebody who asked what the user asked."""
        kinds = len(set(values))
        if kinds < 2 and name != _SAID:
            return 0.0
        parts = [part.lower() for part in _WORDS.findall(_CAMEL.sub(" ", name))]
        named = sum(self._is_asked(part) for part in parts) / max(len(parts), 1)
        words = [[word for word in _WORDS.findall(own.lower()) if len(word) > 2 and word.isalpha()] for own in values]
        shared = sum(sum(map(self._is_asked, own)) / len(own) for own in words if own) / len(values)
        brief = min(1.0, BRIEF * len(values) / sum(map(len, values)))
        worth = (NAMED * named**2 + VALUES_NAMED * shared) * brief
        worth += PASSED * brief**2 if name[:1] == _PASSED else SAID if name == _SAID else 0.0
        worth += VARIES if kinds <= len(values) / 3 else 0.0
        spoken = sum(any(each & KIND == CODE and each in self.spoken for each in _values(own)) for own in values)
        return worth + (SPOKEN * spoken / len(values) if name[:1] not in {_PASSED, _SAID} else 0.0)

    def _is_asked(self, word: str) -> float:
        root = KNOWN.word(word)
        asked = 1.0 if word in self.asked else 0.6 if root in self.asked else 0.0
        return asked * (0.3 if root & KIND == PLAIN else 1.0)

    def _rendered(self, name: str, rows: Sequence[Entity], columns: Sequence[str], budget: int) -> Reading:
        """A table as a reading: what opens it is its header."""
        full = sorted(columns, key=lambda column: -sum(column in own.cells for own in rows))
        tools = Counter(tool for own in rows for tool in own.tools)
        titles = " | ".join([name, *(column.lstrip(_PASSED) or "result" for column in full)])
        gone = max(self.left[name, tool] for tool in tools)
        left = f"({gone} earlier rows left out) " if gone else ""
        header = f"{', '.join(tool for tool, _ in tools.most_common(3))}: {left}{titles}"
        passages = []
        for at, own in enumerate(rows):
            cells = [own.cells.get(column, "") for column in full]
            if not any(cells):
                continue
            text = f"{max(own.seqs)} {' | '.join([own.key, *cells])}".rstrip(" |")
            ids = dict.fromkeys([*concepts(own.key, prose=False), *(each for cell in cells for each in _values(cell))])
            passages.append(Passage(text, self.count(f"\n{text}"), tuple(ids), r.RESULT, 0, 0, number(KEY, name)))
        opening = self.count(f"\n{header} (000 of 000 rows)")
        return Reading(max(max(own.seqs) for own in rows), header, TABLE, opening, (("", 0, ()),), tuple(passages))


class Covered(NamedTuple):
    """Groups of a turn of which fields, or all if none is named, stand elsewhere."""

    first: int
    last: int
    fields: frozenset[int] = frozenset()

    def has(self, own: Passage) -> bool:
        """Whether a passage is one of them."""
        return (
            own.source >= r.CALL and self.first <= own.group < self.last
            and (not self.fields or not own.text or own.field in self.fields)
        )  # fmt: skip


class Built(NamedTuple):
    """Tables, what they say (places, by turn, and texts that need not stand again), and columns to keep."""

    readings: list[Reading]
    places: dict[int, list[Covered]]
    texts: set[str]
    columns: dict[str, list[str]]


_PASSED, _SAID = "\x01", "said"
NEEDED: Final = 0.4
"""Worth that a column has at least that stands whatever it costs."""

RARELY: Final = 0.25
"""Of a column that says so little that other columns do not, nothing is shown."""


def _values(text: str) -> set[int]:
    """What a cell says, but for words that say nothing; all of them if it says nothing else."""
    ids = concepts(text, prose=False)
    return {each for each in ids if each & KIND != PLAIN} or set(ids)


def _without(text: str, key: str) -> str:
    """A sentence without the name of the thing that its row is of."""
    before, _, after = text.partition(key)
    return f"{before.strip(' *')} {after.lstrip(' *:,;-–—')}".strip().rstrip(".")


def _key(records: Sequence[Record]) -> str:
    """The argument by which the calls of a tool name things; "" if none does."""
    held: dict[str, set[str]] = defaultdict(set)
    times: Counter[str] = Counter()
    for own in records:
        for name, value in own.passed.items():
            if value and len(value) <= MOST_TEXT and not re.search(r"\s", value):
                held[name].add(value)
                times[name] += 1
    fit = [name for name, values in held.items() if len(values) >= max(LEAST, 0.5 * len(records))]
    return max(fit, key=lambda name: len(held[name]) >= 0.9 * times[name], default="")
