"""What an agent works through, as tables: one header, one short row for each piece of work.

A piece of work is a call, what it returned, and what was said about it afterwards. An argument that
differs from call to call, or a value that differs from record to record, says which thing a row is
of; tools that speak of the same things fill one table. Which columns stand is chosen by what the
user asked for and by what they cost in all rows together, so that many narrow rows come before few
wide ones; when not all rows fit, the newest stand and the others are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Cells, Passage, Reading
from turnmill_worker.reading.things import (
    LIST,
    MOST_TEXT,
    OPENING,
    Record,
    Stands,
    Thing,
    Told,
    add_said,
    add_things,
    is_detail,
    is_listed,
    is_work,
    leaf,
    leaves,
    named_by,
    same,
    settle,
)
from turnmill_worker.reading.wanted import ASKED, PASSED, PRINTED, SAID, Wanted, values_of
from turnmill_worker.reading.words import CODE, KEY, KIND, Packed, concepts, number, packed

TABLE: Final = 9
"""The role of a reading that is a table; its passages are rows."""

MUST, CHEAP = 0.7, 0.5
"""Of the best column's worth, and rank, from which on a column stands even if rows must leave."""

CORE: Final = 0.6
"""Of the best column's worth, from which on a column comes before all that are worth less."""

NEEDED: Final = 0.4
"""Worth that a column has at least that stands whatever it costs."""

RARELY: Final = 0.25
"""Of a column that says so little that other columns do not, nothing is shown."""

WHOLE, SHARE, LISTED = 0.95, 0.6, 0.25
"""Of a budget, what all rows may take with columns that are needed, and with others; and what the
entries of lists may of which no column was asked for by its name."""

BY_NAME: Final = 0.9
"""Worth of a column that the user asked for by its name."""

LONGEST: Final = 240
SENTENCES: Final = 8
"""Characters of a sentence, and sentences of a message, that may say something about a thing."""

TITLE: Final = 6
"""Tokens of a column's title, about."""

ALIKE: Final = 0.8
"""Of the values that two columns take, those that both do from which on they say the same."""

ASKING: Final = 16
"""Sentences of a message that may all be a request."""

KEPT: Final = 256
"""Of what is remembered of people's words, the newest."""

MOST_TOOLS: Final = 32
"""Tools, and lists of theirs, whose records are kept: those used last."""

FIRST_ASKED: Final = 64
"""So many of the user's first sentences are kept, and as many of the last."""

CONTEXT: Final = 0.15
"""What an argument is worth that all records of a result share."""

RESULT: Final = 0.35
"""What it adds to the worth of a column that it is what came back."""


class Column(NamedTuple):
    """A column of a table, what it is worth, and its tokens in every row."""

    table: str
    name: str
    worth: float
    costs: dict[int, int]

    def rank(self) -> float:
        """The order in which columns are taken."""
        return self.worth**2 / (sum(self.costs.values()) / len(self.costs) + OPENING)


class Covered(NamedTuple):
    """Groups of a turn of which fields, or all if none is named, stand elsewhere."""

    first: int
    last: int
    fields: frozenset[int] = frozenset()

    def has(self, own: Passage) -> bool:
        """Whether a passage is one of them."""
        return (
            own.source >= r.CALL
            and self.first <= own.group < self.last
            and (not self.fields or not own.text or own.field in self.fields)
        )


class Built(NamedTuple):
    """Tables; what need not stand again, by turn and as texts; and columns to keep."""

    readings: list[Reading]
    places: dict[int, list[Covered]]
    texts: set[str]
    columns: dict[str, list[str]]


class _Choice:
    """Which columns stand: what is needed first, and more while all rows fit.

    Attributes:
        best: the worth of each table's best column.
        chosen, others: of each table, the columns that stand, and those that do not.
    """

    def __init__(
        self,
        tables: Mapping[str, list[Thing]],
        columns: Iterable[Column],
        keys: Mapping[str, int],
        budget: int,
    ) -> None:
        self.tables, self.columns, self.keys, self.budget = tables, list(columns), keys, budget
        self.best: dict[str, float] = {}
        self.dense: dict[str, float] = {}
        for own in self.columns:
            self.best[own.table] = max(own.worth, self.best.get(own.table, 0.0))
            self.dense[own.table] = max(own.rank(), self.dense.get(own.table, 0.0))
        self.chosen: dict[str, list[str]] = {name: [] for name in tables}
        self.others: dict[str, list[str]] = {name: [] for name in tables}
        self.told: dict[tuple[str, int], set[int]] = defaultdict(set)

    def run(self) -> None:
        """Choose."""
        spent = 0
        first: dict[tuple[str, str], float] = {}
        for own in self.columns:
            last = own.table, leaf(own.name)
            first[last] = max(own.worth, first.get(last, 0.0))
        # Of this year's weight and last year's, the one that was asked for more comes first.
        self.columns.sort(
            key=lambda own: (
                self._is_core(own),
                own.worth == first[own.table, leaf(own.name)],
                own.worth,
            ),
            reverse=True,
        )
        for own in self.columns:
            rows, taken = self.tables[own.table], self.chosen[own.table]
            # An empty cell costs its bar, and the column its title.
            cost = sum(own.costs.values()) + len(rows) - len(own.costs) + TITLE
            cost += 0 if taken else self.keys[own.table] + TITLE
            values = {at: values_of(rows[at].cells[own.name]) for at in own.costs}
            fits = spent + cost <= self._limit(own) * self.budget or self._must(own)
            if not fits or self._news(own, values) < RARELY * len(values):
                self.others[own.table].append(own.name)
                continue
            spent += cost
            taken.append(own.name)
            for at, ids in values.items():
                self.told[own.table, at] |= ids

    def fill(self) -> None:
        """Give things that the chosen columns say nothing of the best that is known of them."""
        worths = {(own.table, own.name): own.worth for own in self.columns}
        for table, taken in self.chosen.items():
            for own in self.tables[table] if taken else ():
                if not own.cells or any(map(own.cells.get, taken)):
                    continue
                name = max(own.cells, key=lambda name: worths.get((table, name), 0.0), default="")
                if worths.get((table, name), 0.0) < ASKED:
                    continue
                own.cells[PRINTED] = f"{leaf(name.lstrip(PASSED))}: {own.cells[name]}".lstrip(": ")
                if PRINTED not in taken:
                    taken.append(PRINTED)

    def _is_core(self, own: Column) -> bool:
        return own.worth >= max(NEEDED, CORE * self.best[own.table])

    def _limit(self, own: Column) -> float:
        """The part of the budget that all rows may take with a column."""
        more = 1.0 if self._is_core(own) else own.worth / NEEDED
        return SHARE + (WHOLE - SHARE) * min(1.0, more)

    def _must(self, own: Column) -> bool:
        """Whether a column stands even if rows have to leave for it."""
        if leaf(own.name) in map(leaf, self.chosen[own.table]):
            return False
        if own.name == PRINTED and self.best[own.table] >= RESULT + ASKED:
            bare = sum(not self.told[own.table, at] for at in own.costs)
            if 2 * bare > len(own.costs):
                return True
        is_best = own.worth >= MUST * self.best[own.table] and self._is_core(own)
        return is_best and own.rank() >= CHEAP * self.dense[own.table]

    def _news(self, own: Column, values: Mapping[int, frozenset[int]]) -> float:
        """In how many rows a column says what their others do not."""
        told = self.told
        return sum(len(ids - told[own.table, at]) / len(ids) for at, ids in values.items() if ids)


@dataclass(slots=True)
class Tables:
    """The records of a session.

    Attributes:
        records: by tool and list.
        pending: calls that were not answered, by their number.
        asked: the user's sentences, each with its turn.
        spoken: identifiers that somebody said, with the turn that did first.
        told: what may say something about a thing.
        left: records that were given up, by tool and list.
    """

    count: Callable[[str], int]
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    pending: dict[str, tuple[str, Record]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    spoken: dict[int, int] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, reading: Reading) -> None:
        """Takes over the cells of a message, and the words people say in it."""
        for cells in reading.cells:
            if cells.tool:
                self._called(reading.seq, cells)
            else:
                self._returned(reading, cells)
        self._heard(reading)
        for own in reading.passages:
            if own.source in {r.USER, r.CALL, r.ASSISTANT}:
                for each in own.ids:
                    if each & KIND == CODE:
                        self.spoken.setdefault(each, reading.seq)

    def _heard(self, reading: Reading) -> None:
        """Remembers what people say: what the user asks for, and what may be said about a thing."""
        people = [own for own in reading.passages if own.source in {r.USER, r.ASSISTANT}]
        # In a short message, what looks handed over may be what is asked for: "I need: the total".
        short = len(reading.passages) <= ASKING
        for own in reading.passages if reading.role == r.USER else ():
            if (short or own.source == r.USER) and own.text not in self.asked:
                self.asked[own.text] = reading.seq
        for own in people if len(people) <= SENTENCES else ():
            if len(own.text) <= LONGEST:
                self.told.append(Told(reading.seq, own.source == r.USER, own.text))

    def _called(self, seq: int, cells: Cells) -> None:
        record = Record(seq, cells.fields)
        if cells.whole:
            record.places.append(_place(seq, cells))
        self.pending[cells.call] = cells.tool, record
        self.records.setdefault((cells.tool, ""), []).append(record)

    def _returned(self, reading: Reading, cells: Cells) -> None:
        tool, call = self.pending.get(cells.call) or (reading.who, Record(reading.seq, {}))
        own = call
        if cells.path:
            own = Record(call.seq, call.passed)
            self.records.setdefault((tool, cells.path), []).append(own)
        elif cells.call not in self.pending:
            self.pending[cells.call] = tool, own
            self.records.setdefault((tool, ""), []).append(own)
        own.returned = {**own.returned, **cells.fields}
        own.done, own.lines = reading.seq, own.lines or cells.lines
        own.places.append(_place(reading.seq, cells))

    def build(self, until: int, budget: int, past: Collection[str] = ()) -> Built:
        """The tables of all records up to a turn; ``past``: sentences that no longer hold."""
        return self._built(until, budget, past) if self.records else Built([], {}, set(), {})

    def _built(self, until: int, budget: int, past: Collection[str]) -> Built:
        asks = self._wanted(until, past)
        tables = self._joined(until, asks)
        for rows in tables.values():
            add_said(rows, [own for own in self.told if own.seq <= until])
            rows.sort(key=lambda thing: max(thing.seqs))
        work = {name for name, rows in tables.items() if is_work(rows, asks)}
        listing = {tool for at in work if is_listed(tables[at]) for tool in _tools(tables[at])}
        tables = {
            name: rows
            for name, rows in tables.items()
            if name in work or (is_listed(rows) and listing & _tools(rows))
        }
        columns = [own for name, rows in tables.items() for own in self._weighed(name, rows, asks)]
        columns = _namesakes(columns, tables)
        keys = {
            name: sum(self.count(f"\n{max(own.seqs)} {own.key}") for own in rows)
            for name, rows in tables.items()
        }
        choice = _Choice(tables, columns, keys, budget)
        choice.run()
        choice.fill()
        readings = []
        covered: dict[int, list[Covered]] = defaultdict(list)
        texts: set[str] = set()
        room = WHOLE * budget
        for name in sorted(choice.best, key=lambda name: -choice.best[name]):
            shown = choice.chosen[name]
            rows = [own for own in tables[name] if any(map(own.cells.get, shown))]
            if not rows:
                continue
            share = WHOLE if choice.best[name] >= NEEDED else SHARE
            share = LISTED if is_listed(rows) and choice.best[name] < BY_NAME else share
            own = self._rendered(name, rows, shown, min(room, share * budget))
            room -= sum(each.tokens for each in own.passages) + own.opening
            readings.append(own)
            _cover(tables[name], shown, covered, texts)
        keep = {name: [*choice.chosen[name], *choice.others[name]] for name in tables}
        return Built([each for each in readings if each.passages], covered, texts, keep)

    def trim(self, until: int, shown: Mapping[str, Sequence[str]], tokens: int) -> None:
        """Forgets what is too much: columns of little worth, and then the oldest rows."""
        names = [name.lstrip(PASSED) for columns in shown.values() for name in columns]
        asks = self._wanted(until, ()) if self.records else Wanted((), set())
        newest = sorted(self.records, key=lambda at: -self.records[at][-1].seq)
        self.records = {at: self.records[at] for at in self.records if at in newest[:MOST_TOOLS]}
        # Few tools may have much each, many have their part of twice as much.
        part = min(tokens, 2 * tokens // max(len(self.records), 1))
        for at, records in self.records.items():
            room, kept = part, []
            if sum(map(Record.size, records)) > part:
                for own in records:
                    _narrow(own, set(names), asks)
            for own in reversed(records):
                room -= own.size()
                if room < 0 and own.seq <= until:
                    break
                kept.append(own)
            self.left[at] += len(records) - len(kept)
            self.records[at] = kept[::-1]
        self.records = {at: own for at, own in self.records.items() if own}
        self.pending = {
            call: own for call, own in self.pending.items() if own[1].seq > until or not own[1].done
        }
        self.pending = dict(list(self.pending.items())[-KEPT:])
        self.told = self.told[-KEPT:] if self.records else []
        asked = list(self.asked.items())
        self.asked = dict([*asked[:FIRST_ASKED], *asked[FIRST_ASKED:][-FIRST_ASKED:]])
        self.spoken = dict(list(self.spoken.items())[-8 * KEPT :])

    def up_to(self, seq: int) -> None:
        """Forgets everything that came from later turns."""
        for at, records in self.records.items():
            kept = [own for own in records if own.seq <= seq and (not at[1] or own.done <= seq)]
            for own in kept:
                if own.done > seq:
                    own.returned, own.lines, own.done = {}, (), 0
                    own.places = [place for place in own.places if place.seq <= seq]
            self.records[at] = kept
        self.records = {at: own for at, own in self.records.items() if own}
        self.pending = {call: own for call, own in self.pending.items() if own[1].seq <= seq}
        self.asked = {text: when for text, when in self.asked.items() if when <= seq}
        self.spoken = {each: when for each, when in self.spoken.items() if when <= seq}
        self.told = [own for own in self.told if own.seq <= seq]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; calls that were not answered are found again by their records."""
        where = {
            id(own): (at, index)
            for at, found in self.records.items()
            for index, own in enumerate(found)
        }
        return {
            "records": [
                [*at, [own.stored() for own in found]] for at, found in self.records.items()
            ],
            "pending": [
                [call, tool, where[id(own)][1]]
                for call, (tool, own) in self.pending.items()
                if id(own) in where
            ],
            "asked": list(self.asked.items()),
            "spoken": [packed(self.spoken), list(self.spoken.values())],
            "told": self.told,
            "left": [[*at, times] for at, times in self.left.items() if times],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], count: Callable[[str], int]) -> Tables:
        """What was stored."""
        found = cls(count)
        for tool, path, records in stored["records"]:
            found.records[tool, path] = [Record.restored(own) for own in records]
        for call, tool, at in stored["pending"]:
            found.pending[call] = tool, found.records[tool, ""][at]
        found.asked = dict(stored["asked"])
        spoken, seqs = stored["spoken"]
        found.spoken = dict(zip(Packed(spoken).rest(), seqs, strict=True))
        found.told = [Told(*own) for own in stored["told"]]
        found.left = Counter({(tool, path): times for tool, path, times in stored["left"]})
        return found

    def _wanted(self, until: int, past: Collection[str]) -> Wanted:
        """What the user asked for up to a turn, but for what no longer holds."""
        return Wanted(
            (text for text, seq in self.asked.items() if seq <= until and text not in past),
            {each for each, seq in self.spoken.items() if seq <= until},
        )

    def _joined(self, until: int, asks: Wanted) -> dict[str, list[Thing]]:
        """The rows of each table, by what their things are called."""
        found: dict[str, dict[str, list[Thing]]] = {}
        for (tool, path), records in self.records.items():
            own = [each for each in records if each.seq <= until and each.done <= until]
            if path and is_detail(self.records.get((tool, ""), ())):
                continue
            for name, key, named in named_by(tool, path, own, asks):
                title = key.lstrip(PASSED)
                table = same(found, title, set(named.values())) or title
                add_things(found.setdefault(table, {}), name, own, named)
        tables = {
            name: [own for rows in things.values() for own in rows]
            for name, things in found.items()
        }
        for rows in tables.values():
            for thing in rows:
                settle(thing, asks)
            leaves(rows)
        return tables

    def _weighed(self, table: str, rows: Sequence[Thing], asks: Wanted) -> list[Column]:
        """The columns of a table that are worth anything."""
        held: dict[str, dict[int, str]] = defaultdict(dict)
        for at, own in enumerate(rows):
            for name, value in own.cells.items():
                if value:
                    held[name][at] = value
        listed = all(LIST in tool for own in rows for tool in own.newest)
        found = []
        for name, values in held.items():
            worth = asks.worth(name, list(values.values()))
            if name[:1] == PASSED and listed:
                worth = min(worth, CONTEXT)
            worth += RESULT * (name == PRINTED)
            if worth > 0:
                found.append(
                    Column(
                        table,
                        name,
                        worth,
                        {at: self.count(f" | {own}") for at, own in values.items()},
                    )
                )
        return found

    def _rendered(
        self, name: str, rows: Sequence[Thing], columns: Sequence[str], room: float
    ) -> Reading:
        """A table as a reading: its header, and the newest rows that there is room for."""
        full = sorted(columns, key=lambda column: -sum(column in own.cells for own in rows))
        full = [
            column
            for at, column in enumerate(full)
            if any(_cells(own, full[: at + 1])[0][at] for own in rows)
        ]
        tools = Counter(tool for own in rows for tool in own.newest)
        titles = " | ".join(
            [name, *(_TITLES.get(column, column.lstrip(PASSED)) for column in full)]
        )
        header = (
            f"{', '.join(tool.partition(LIST)[0] for tool, _ in tools.most_common(3))}: {titles}"
        )
        opening = self.count(f"\n{header} (0000 earlier rows left out)")
        room -= opening
        passages: list[Passage] = []
        for own in reversed(rows):
            cells, ids = _cells(own, full)
            text = f"{max(own.seqs)} {' | '.join([own.key, *cells])}".rstrip(" |")
            tokens = self.count(f"\n{text}")
            room -= tokens
            if room < 0:
                break
            passages.append(Passage(text, tokens, ids, r.RESULT, 0, 0, number(KEY, name)))
        gone = len(rows) - len(passages) + max((self.left[_at(tool)] for tool in tools), default=0)
        newest = max(max(own.seqs) for own in rows)
        return Reading(newest, header, TABLE, opening, ((str(gone), 0, ()),), tuple(passages[::-1]))


def _namesakes(columns: Sequence[Column], tables: Mapping[str, list[Thing]]) -> list[Column]:
    """Columns with the worth of those that take the same few values in another shape."""
    kinds = {
        own[:2]: {tables[own.table][at].cells[own.name] for at in own.costs} for own in columns
    }
    tools = {name: _tools(rows) for name, rows in tables.items()}
    few = [own for own in columns if 1 < len(kinds[own[:2]]) <= len(own.costs) / 3]
    found = []
    for own in columns:
        worths = [
            each.worth
            for each in few
            if each.table != own.table
            and each.worth > own.worth
            and tools[each.table] & tools[own.table]
            and _alike(kinds[own[:2]], kinds[each[:2]])
        ]
        found.append(own._replace(worth=max(worths, default=own.worth)))
    return found


def _tools(rows: Iterable[Thing]) -> set[str]:
    """What the things of a table come from."""
    return {tool.partition(LIST)[0] for own in rows for tool in own.newest}


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


def _cells(own: Thing, columns: Sequence[str]) -> tuple[list[str], tuple[int, ...]]:
    """The cells of a row, but for those that say what one before them says; and what they say."""
    told = dict.fromkeys(concepts(own.key, prose=False))
    cells = []
    for column in columns:
        value = own.cells.get(column, "")
        ids = values_of(value)
        if len(ids) > 1 and ids <= told.keys():
            value = ""
        told.update(dict.fromkeys(ids))
        cells.append(value)
    return cells, tuple(told)


_TITLES: Final = {SAID: "said", PRINTED: "result"}


def _at(tool: str) -> tuple[str, str]:
    name, _, path = tool.partition(LIST)
    return name, path


def _place(seq: int, cells: Cells) -> Stands:
    return Stands(seq, cells.first, cells.last, tuple(cells.fields), cells.whole)


def _narrow(own: Record, names: Collection[str], asks: Wanted) -> None:
    """Leaves of a record what can still be shown, and what may name it."""
    own.passed = {k: v for k, v in own.passed.items() if k in names or len(v) <= MOST_TEXT}
    own.returned = {
        k: v
        for k, v in own.returned.items()
        if k in names or k.rpartition(".")[2] in names or v in own.passed.values()
    }
    if len(own.lines) > 1:
        own.lines = (*asks.lines(own.lines[:-1], ""), own.lines[-1])


def _cover(
    rows: Iterable[Thing],
    columns: Collection[str],
    covered: dict[int, list[Covered]],
    texts: set[str],
) -> None:
    """Notes where the values of things stand elsewhere: alone they would have no owner."""
    for own in rows:
        for place in own.places:
            fields = (
                frozenset() if place.whole else frozenset(number(KEY, each) for each in place.names)
            )
            if place.whole or fields:
                covered[place.seq].append(Covered(place.first, place.last, fields))
        if PRINTED in columns or SAID in columns:
            texts.update(own.texts)
