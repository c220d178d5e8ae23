"""What an agent works through, as tables: one header, one short row for each piece of work.

A piece of work is a call, what it returned, and what was said about it afterwards. An argument that
differs from call to call, or a value that differs from record to record, says which thing a row is
of; tools that speak of the same things fill one table. Which columns stand is chosen by what the
user asked for and by what they cost in all rows together, so that many narrow rows come before few
wide ones; when not all rows fit, the newest stand and the others are counted.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Cells, Passage, Reading
from turnmill_worker.reading.words import (
    CODE,
    IDENTIFIERS,
    KEY,
    KIND,
    KNOWN,
    PLAIN,
    PLAIN_FROM,
    UNSPACED,
    common,
    concepts,
    kind_of,
    number,
)

TABLE: Final = 9
"""The role of a reading that is a table; its passages are rows."""

LEAST: Final = 8
"""Things that have to be told apart before calls are shown as a table."""

TURNS: Final = 4
"""Turns that a table comes from at least: what one search lists is no work."""

MOST_TEXT: Final = 64
"""Characters of what can name a thing."""

NAMED, VALUES_NAMED, PASSED, SAID, SPOKEN, VARIES, DIFFERS, RESULT = 1.0, 0.6, 0.8, 2.5, 0.5, 0.15, 0.1, 0.35
"""What a column is worth whose name, or values, the user says; that calls pass; that was said about
a thing; whose values are spoken of elsewhere; that takes few values; that takes many; and that is
all that came back."""

BRIEF: Final = 24
"""Characters of a value that is passed on purpose; longer ones are texts."""

OPENING: Final = 4
"""Tokens that open a row, for each of few cells."""

MUST, CHEAP = 0.75, 0.52
"""Of the best column's worth, and rank, from which on a column stands if rows have to leave for it."""

CORE: Final = 0.6
"""Of the best column's worth, from which on a column comes before all that are worth less."""

ASKED: Final = 0.3
"""How much a value of listed things has to be asked for, for them to be worked through."""

LITTLE: Final = 0.3
"""What a word counts that everybody says all the time."""

ROOT, ALIKE = 4, 0.75
"""Letters of words that may be parts of another, and what that says."""

MORE, MOST_OF_IT = 3, 160
"""Lines of a text that are looked at for what came out, and characters of those that are shown."""

STEM: Final = 0.9
"""What it says that the user said a word in another form."""

DETAILS: Final = 3
"""Values of its own from which on a record is a thing, and lists in it are parts of that."""

NEEDED: Final = 0.4
"""Worth that a column has at least that stands whatever it costs."""

RARELY: Final = 0.25
"""Of a column that says so little that other columns do not, nothing is shown."""

WHOLE, SHARE, LISTED = 0.95, 0.6, 0.25
"""Of a budget, what all rows may take with columns that are needed, and with others; and what the
entries of lists may that nobody goes through."""

LONGEST: Final = 240
SENTENCES: Final = 8
"""Characters of a sentence, and sentences of a message, that may say something about a thing."""

KEPT: Final = 512
"""Of what is remembered of people's words, the newest."""

_PASSED, _SAID, _LINE = "\x01", "\x02", ""
"""What opens the name of an argument; the column of what was said; and of what was printed."""

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_VALUE = re.compile(r"[#$€£]?\w*\d(?:[\w.,:/+-]*\w)?[%€£$]?")


class Stands(NamedTuple):
    """Where fields stand: a turn, its groups, and their names; ``whole``: nothing else stands there."""

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
        found = [Stands(*own[:3], tuple(own[3]), own[4]) for own in places]
        return cls(seq, dict(passed), dict(returned), done, tuple(lines), found)

    def value(self, name: str) -> str:
        """The value of a column."""
        return self.passed.get(name[1:], "") if name[:1] == _PASSED else self.returned.get(name, "")

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
    said: set[str] = field(default_factory=set)
    newest: dict[str, tuple[Record, float]] = field(default_factory=dict)


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
    """Tables, what they say (places, by turn, and texts that need not stand again), and columns to keep."""

    readings: list[Reading]
    places: dict[int, list[Covered]]
    texts: set[str]
    columns: dict[str, list[str]]


@dataclass(slots=True)
class Tables:
    """The records of a session.

    Attributes:
        records: by tool and list.
        pending: calls that were not answered, by their number.
        asked: the user's sentences, each with its words.
        spoken: identifiers that somebody said, with the turn that did first.
        told: what may say something about a thing.
        left: records that were given up, by tool and list.
    """

    count: Callable[[str], int]
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    pending: dict[str, tuple[str, Record]] = field(default_factory=dict)
    asked: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
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
        people = [own for own in reading.passages if own.source in {r.USER, r.ASSISTANT}]
        for own in people:
            if own.source == r.USER and own.text not in self.asked:
                words = dict.fromkeys(_WORDS.findall(own.text.lower()))
                self.asked[own.text] = reading.seq, tuple(words)
            if len(people) <= SENTENCES and len(own.text) <= LONGEST:
                self.told.append(Told(reading.seq, own.source == r.USER, own.text))
        for own in reading.passages:
            if own.source in {r.USER, r.CALL, r.ASSISTANT}:
                for each in own.ids:
                    if each & KIND == CODE:
                        self.spoken.setdefault(each, reading.seq)

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
        asks = _Asks(self, until, past)
        tables = self._joined(until, asks)
        for rows in tables.values():
            _add_said(rows, [own for own in self.told if own.seq <= until])
        tables = {name: rows for name, rows in tables.items() if _is_work(rows, asks)}
        columns = [own for name, rows in tables.items() for own in self._weighed(name, rows, asks)]
        chosen, others = self._columns(tables, columns, budget)
        readings = []
        covered: dict[int, list[Covered]] = defaultdict(list)
        texts: set[str] = set()
        room = WHOLE * budget
        worth = {name: max((own.worth for own in columns if own.table == name), default=0.0) for name in tables}
        for name in sorted(chosen, key=lambda name: -worth[name]):
            rows = [own for own in tables[name] if any(map(own.cells.get, chosen[name]))]
            if not rows:
                continue
            share = LISTED if _is_listed(rows) and not _is_counted(rows) else SHARE if worth[name] < NEEDED else WHOLE
            own = self._rendered(name, rows, chosen[name], min(room, share * budget))
            room -= sum(each.tokens for each in own.passages) + own.opening
            readings.append(own)
            _cover(tables[name], set(chosen[name]), covered, texts)
        keep = {name: [*chosen[name], *others[name]] for name in tables}
        return Built([each for each in readings if each.passages], covered, texts, keep)

    def trim(self, until: int, shown: Mapping[str, Sequence[str]], tokens: int) -> None:
        """Forgets what is too much: columns of little worth, and then the oldest rows."""
        names = [name.lstrip(_PASSED) for columns in shown.values() for name in columns]
        asks = _Asks(self, until, ())
        for at, records in self.records.items():
            room, kept = tokens, []
            if sum(map(Record.size, records)) > tokens:
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
        self.pending = {call: own for call, own in self.pending.items() if own[1].seq > until or not own[1].done}
        self.pending = dict(list(self.pending.items())[-KEPT:])
        self.told = self.told[-KEPT:]
        self.asked = dict([*list(self.asked.items())[:KEPT], *list(self.asked.items())[KEPT:][-KEPT:]])
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
        self.asked = {text: own for text, own in self.asked.items() if own[0] <= seq}
        self.spoken = {each: when for each, when in self.spoken.items() if when <= seq}
        self.told = [own for own in self.told if own.seq <= seq]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; calls that were not answered are found again by their records."""
        where = {id(own): (at, index) for at, found in self.records.items() for index, own in enumerate(found)}
        return {
            "records": [[*at, [own.stored() for own in found]] for at, found in self.records.items()],
            "pending": [
                [call, tool, where[id(own)][1]] for call, (tool, own) in self.pending.items() if id(own) in where
            ],
            "asked": [[text, *own] for text, own in self.asked.items()],
            "spoken": list(self.spoken.items()),
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
        found.asked = {text: (seq, tuple(words)) for text, seq, words in stored["asked"]}
        found.spoken = {each: seq for each, seq in stored["spoken"]}
        found.told = [Told(*own) for own in stored["told"]]
        found.left = Counter({(tool, path): times for tool, path, times in stored["left"]})
        return found

    def _joined(self, until: int, asks: _Asks) -> dict[str, list[Thing]]:
        """The rows of each table, by what their things are called; of tools that have enough of them."""
        found: dict[str, dict[str, list[Thing]]] = {}
        for (tool, path), records in self.records.items():
            own = [each for each in records if each.seq <= until and each.done <= until]
            if path and _is_detail(self.records.get((tool, ""), ())):
                continue
            for name, key, named in _named(tool, path, own, asks):
                title = key.lstrip(_PASSED)
                table = _same(found, title, set(named.values())) or title
                _add_things(found.setdefault(table, {}), name, key, own, named, asks)
        tables = {name: [own for rows in things.values() for own in rows] for name, things in found.items()}
        for rows in tables.values():
            for own in rows:
                _settle(own, asks)
            _leaves(rows)
            rows.sort(key=lambda own: max(own.seqs))
        return tables

    def _columns(
        self, tables: Mapping[str, list[Thing]], columns: list[Column], budget: int
    ) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The columns of each table: the core of each, and more while all rows fit; and the others."""
        best = {own.table: max(each.worth for each in columns if each.table == own.table) for own in columns}
        dense = {name: max(own.rank() for own in columns if own.table == name) for name in best}
        core = {own[:2] for own in columns if own.worth >= max(NEEDED, CORE * best[own.table])}
        keys = {
            name: sum(self.count(f"\n{max(own.seqs)} {own.key}") for own in rows) for name, rows in tables.items()
        }
        columns.sort(key=lambda own: (own[:2] in core, own.worth), reverse=True)
        chosen: dict[str, list[str]] = {name: [] for name in tables}
        others: dict[str, list[str]] = {name: [] for name in tables}
        told: dict[tuple[str, int], set[int]] = defaultdict(set)
        spent = 0
        for own in columns:
            rows = tables[own.table]
            must = own[:2] in core and own.worth >= MUST * best[own.table] and own.rank() >= CHEAP * dense[own.table]
            bare = own.name == _LINE and 2 * sum(not told[own.table, at] for at in own.costs) > len(own.costs)
            must = must or bare and best[own.table] >= RESULT + ASKED
            must = must and _leaf(own.name) not in map(_leaf, chosen[own.table])
            cost = sum(own.costs.values()) + (0 if chosen[own.table] else keys[own.table])
            values = {at: _values(rows[at].cells[own.name]) for at in own.costs}
            new = sum(len(ids - told[own.table, at]) / len(ids) if ids else 0.0 for at, ids in values.items())
            limit = WHOLE if own[:2] in core else SHARE + (WHOLE - SHARE) * min(1.0, own.worth / NEEDED)
            if new < RARELY * len(own.costs) or not must and spent + cost > limit * budget:
                others[own.table].append(own.name)
                continue
            spent += cost
            chosen[own.table].append(own.name)
            for at, ids in values.items():
                told[own.table, at] |= ids
        return chosen, others

    def _weighed(self, table: str, rows: Sequence[Thing], asks: _Asks) -> list[Column]:
        """The columns of a table that are worth anything."""
        held: dict[str, dict[int, str]] = defaultdict(dict)
        for at, own in enumerate(rows):
            for name, value in own.cells.items():
                if value:
                    held[name][at] = value
        listed = all(_LIST in tool for own in rows for tool in own.newest)
        found = []
        for name, values in held.items():
            worth = asks.worth(name, list(values.values()))
            if name[:1] == _PASSED and listed:
                worth = min(worth, VARIES)
            worth += RESULT * (name == _LINE)
            if worth > 0:
                found.append(Column(table, name, worth, {at: self.count(f" | {own}") for at, own in values.items()}))
        return found

    def _rendered(self, name: str, rows: Sequence[Thing], columns: Sequence[str], room: float) -> Reading:
        """A table as a reading: what opens it is its header; the newest rows that there is room for."""
        full = sorted(columns, key=lambda column: -sum(column in own.cells for own in rows))
        full = [column for at, column in enumerate(full) if any(_cells(own, full[: at + 1])[0][at] for own in rows)]
        tools = Counter(tool for own in rows for tool in own.newest)
        titles = " | ".join([name, *(_TITLES.get(column, column.lstrip(_PASSED)) for column in full)])
        header = f"{', '.join(tool.partition(_LIST)[0] for tool, _ in tools.most_common(3))}: {titles}"
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


def _cells(own: Thing, columns: Sequence[str]) -> tuple[list[str], tuple[int, ...]]:
    """The cells of a row, but for those that say what one before them says; and what they say."""
    told = dict.fromkeys(concepts(own.key, prose=False))
    cells = []
    for column in columns:
        value = own.cells.get(column, "")
        ids = _values(value)
        if len(ids) > 1 and ids <= told.keys():
            value = ""
        told.update(dict.fromkeys(ids))
        cells.append(value)
    return cells, tuple(told)


_TITLES: Final = {_SAID: "said", _LINE: "result"}
_LIST: Final = "\x03"
"""What stands between a tool's name and the list of its results."""


def _at(tool: str) -> tuple[str, str]:
    name, _, path = tool.partition(_LIST)
    return name, path


def _place(seq: int, cells: Cells) -> Stands:
    return Stands(seq, cells.first, cells.last, tuple(cells.fields), cells.whole)


def _narrow(own: Record, names: Collection[str], asks: _Asks) -> None:
    """Leaves of a record what can still be shown, and what may name it."""
    own.passed = {k: v for k, v in own.passed.items() if k in names or len(v) <= MOST_TEXT}
    own.returned = {
        k: v for k, v in own.returned.items() if k in names or k.rpartition(".")[2] in names or v in own.passed.values()
    }
    if len(own.lines) > MORE:
        own.lines = (*asks.lines(own.lines[:-1], ""), own.lines[-1])


class _Asks:
    """What the user asked for, to weigh columns and lines by."""

    def __init__(self, tables: Tables, until: int, past: Collection[str]) -> None:
        told = [own for text, (seq, own) in tables.asked.items() if seq <= until and text not in past]
        self.sentences = [_forms(own) for own in told]
        self.words = set().union(*self.sentences)
        self.spoken = {each for each, seq in tables.spoken.items() if seq <= until}
        self.roots = {own for own in self.words if isinstance(own, str) and len(own) >= ROOT}
        self.known: dict[str, float] = {}
        self.hits: dict[str, dict[int, float]] = {}

    def word(self, word: str) -> float:
        """How much a word is one of the user's."""
        if word not in self.known:
            self.known[word] = self._within(word, self.words)
        return self.known[word]

    def _within(self, word: str, words: Collection[str | int]) -> float:
        """How much of a word is in a sentence: its form, its stem, or its pairs of characters."""
        if UNSPACED.search(word):
            ids = KNOWN[word]
            return sum(each in words for each in ids) / len(ids)
        return _weight(word) * (1.0 if word in words else STEM if KNOWN.word(word) in words else 0.0)

    def share(self, text: str) -> float:
        """The share of a text's words that are the user's."""
        words = [word for word in _WORDS.findall(text.lower()) if word.isalpha() and len(word) > 2 - (not word.isascii())]
        return sum(map(self.word, words)) / len(words) if words else 0.0

    def asked(self, name: str, values: Sequence[str]) -> float:
        """How much a column is what the user asked for, by its name and by its values."""
        shared = sum(map(self.share, values)) / len(values)
        brief = min(1.0, BRIEF * len(values) / sum(map(len, values)))
        return (NAMED * self._named(name) ** 2 + VALUES_NAMED * shared) * brief

    def worth(self, name: str, values: Sequence[str]) -> float:
        """What a column is worth to somebody who asked that."""
        kinds = len(set(values))
        if kinds < 2 and name != _SAID:  # noqa: PLR2004
            return 0.0
        brief = min(1.0, BRIEF * len(values) / sum(map(len, values)))
        worth = self.asked(name, values)
        worth += PASSED * brief**2 if name[:1] == _PASSED else SAID if name == _SAID else 0.0
        worth += VARIES if kinds <= len(values) / 3 else DIFFERS * brief
        if name[:1] in {_PASSED, _SAID}:
            return worth
        spoken = sum(any(each & KIND == CODE and each in self.spoken for each in _values(own)) for own in values)
        return worth + SPOKEN * brief * spoken / len(values)

    def _named(self, name: str) -> float:
        """How much of a column's name the user said in one sentence; its last part says what it is."""
        parts = [
            [word.lower() for word in _WORDS.findall(_CAMEL.sub(" ", part))]
            for part in name.lstrip(_PASSED).split(".")
        ]
        whole, last = [word for part in parts for word in part], parts[-1]
        if not last:
            return 0.0
        weights = {word: _weight(word) for word in whole}
        hits = {word: self._hits(word) for word in whole}
        best = 0.0
        for at in {each for found in hits.values() for each in found}:
            said = {word: found.get(at, 0.0) for word, found in hits.items()}
            ends = sum(map(said.__getitem__, last)) / sum(map(weights.__getitem__, last))
            found = sum(said.values()) / sum(weights.values())
            best = max(best, (found + ends) / 2 * min(1.0, sum(said.values())))
        return best

    def _hits(self, word: str) -> dict[int, float]:
        """The sentences in which a word of a name is, be it in another form or in a compound."""
        if word not in self.hits:
            found = {at: own for at, words in enumerate(self.sentences) if (own := self._within(word, words))}
            akin = {own for own in self.roots if _akin(own, word)} if len(word) >= ROOT else set()
            for at, words in enumerate(self.sentences) if akin else ():
                if at not in found and not akin.isdisjoint(words):
                    found[at] = ALIKE
            self.hits[word] = found
        return self.hits[word]

    def lines(self, lines: Sequence[str], key: str) -> list[str]:
        """Of what was printed, the line that says most of what was asked, and what one more adds."""
        told: set[str] = set()
        best: list[tuple[float, int]] = []
        asked: list[set[str]] = []
        for at, own in enumerate(lines):
            worths = {word: self.word(word) for word in _letters(own)}
            asked.append({word for word, worth in worths.items() if worth > LITTLE})
            score = 0.3 * min(3, sum(each & KIND in IDENTIFIERS for each in _values(own)))
            score += min(2.0, sum(worths.values())) + 0.5 * (key in own) + 0.5 * (at == len(lines) - 1)
            if own and score > 0:
                best.append((-score, at))
        found: list[int] = []
        for _, at in sorted(best)[:MORE]:
            if found == [len(lines) - 1]:
                break
            whole = sum(len(lines[each]) for each in (*found, at))
            news = asked[at] - told and whole <= MOST_OF_IT and _VALUE.search(lines[at])
            if not found or news:
                found.append(at)
                told |= asked[at]
        return [lines[at] for at in sorted(found)]


def _akin(one: str, other: str) -> bool:
    """Whether one of two words is in the other, or they begin alike for most of their length."""
    if one in other or other in one:
        return True
    most = max(len(one), len(other))
    alike = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return alike >= ROOT and 3 * alike >= 2 * most


def _letters(text: str) -> set[str]:
    return {word for word in _WORDS.findall(text.lower()) if word.isalpha()}


def _forms(words: Sequence[str]) -> set[str | int]:
    """Words as they stand, their stems, and the pairs of those that no spaces part."""
    found: set[str | int] = {*words, *map(KNOWN.word, words)}
    for word in words:
        if UNSPACED.search(word):
            found.update(KNOWN[word])
    return found


def _weight(word: str) -> float:
    """What it says that a word was said: less of one that everybody says."""
    root = KNOWN.word(word)
    return LITTLE if root & KIND == PLAIN else 1 - common().get(root, 0) / (2 * PLAIN_FROM)


def _named(tool: str, path: str, records: Sequence[Record], asks: _Asks) -> Iterable[tuple[str, str, dict[int, str]]]:
    """By which column the records of a tool name things, and how each is called."""
    rest = list(range(len(records)))
    while len(rest) >= LEAST and (key := _key([records[at] for at in rest], path, asks)):
        values = {at: value for at in rest if (value := records[at].value(key))}
        if len({records[at].done or records[at].seq for at in values}) < TURNS - bool(path):
            return
        yield from _by_command(f"{tool}{_LIST}{path}" if path else tool, key, values)
        rest = [at for at in rest if at not in values]


def _by_command(name: str, key: str, values: dict[int, str]) -> Iterable[tuple[str, str, dict[int, str]]]:
    """Things that are commands, apart by what they run."""
    first = Counter(value.split(None, 1)[0] for value in values.values() if " " in value)
    commands = [word for word, times in first.items() if times >= LEAST and not word[0].isupper()]
    if 2 * sum(map(first.__getitem__, commands)) < len(values):
        yield name, key, values
        return
    for word in commands:
        own = _varying({at: value for at, value in values.items() if value.split(None, 1)[0] == word})
        if len(set(own.values())) >= LEAST:
            yield f"{name} {word}", key, own


def _varying(values: Mapping[int, str]) -> dict[int, str]:
    """Commands without the words that most of them have."""
    times = Counter(word for value in values.values() for word in set(value.split()))
    usual = {word for word, n in times.items() if n > max(2, len(values) / 5)}
    return {
        at: " ".join(word for word in value.split() if word not in usual) or value for at, value in values.items()
    }


def _key(records: Sequence[Record], path: str, asks: _Asks) -> str:
    """The column by which records name things; "" if none does."""
    held: dict[str, list[str]] = defaultdict(list)
    for own in records:
        for name, value in own.passed.items():
            held[f"{_PASSED}{name}"].append(value)
        for name, value in own.returned.items():
            if name:
                held[name].append(value)
    best, found = 0.0, ""
    for name, values in held.items():
        kinds = set(values)
        short = [value for value in kinds if value and len(value) <= MOST_TEXT]
        if len(short) < max(LEAST, 0.5 * len(records)) or len(short) < 0.8 * len(kinds):
            continue
        passed = name[:1] == _PASSED
        score = 2.0 * (len(kinds) >= 0.9 * len(values)) + 1.0 * (passed != bool(path))
        score += sum(map(_tells, short)) / len(short)
        score += sum(not asks.spoken.isdisjoint(concepts(own, prose=False)) for own in short) / len(short)
        if score > best + 1e-9:
            best, found = score, name
    return found


def _tells(value: str) -> float:
    """How much a value looks like what a thing is called by."""
    if _AMOUNT.fullmatch(value):
        return 0.3 if value.isdigit() else 0.0
    return 1.0 if kind_of(value) == CODE else 0.7 if value.count(" ") < 4 else 0.2  # noqa: PLR2004


_AMOUNT = re.compile(r"\W*\d[\d.,:]*\W?[^\W\d]{0,4}(?:/\w{1,4})?|\W*[\d.,:/ -]*|[\d-]+T[\d:.]+Z?")


def _same(found: Mapping[str, Mapping[str, object]], title: str, keys: set[str]) -> str:
    """The table that is already there for such things."""
    if title in found:
        return title
    for name, things in found.items():
        if 2 * len(keys & things.keys()) > min(len(keys), len(things)):
            return name
    return ""


def _add_things(
    things: dict[str, list[Thing]], tool: str, key: str, records: Sequence[Record], named: Mapping[int, str], asks: _Asks
) -> None:
    """Records as rows: a later one of the same call counts, one of another call is a row of its own."""
    usual = Counter(name for own in records for name in own.returned)
    for at, name in named.items():
        own = records[at]
        full = sum(map(usual.__getitem__, own.returned)) + 0.5 * len(records) * bool(own.lines)
        rows = things.setdefault(name, [])
        thing = next((row for row in rows[::-1] if tool not in row.newest or _again(row.newest[tool][0], own, tool)), None)
        if thing is None:
            thing = Thing(name)
            rows.append(thing)
        thing.seqs.append(max(own.seq, own.done))
        thing.done = max(thing.done, own.done)
        thing.places.extend(own.places)
        thing.said.add(key.lstrip(_PASSED))
        before = thing.newest.get(tool)
        if before is None or 2 * full >= before[1]:
            thing.newest[tool] = own, full


def _is_detail(around: Sequence[Record]) -> bool:
    """Whether lists are parts of things that have values of their own."""
    held: dict[str, set[str]] = defaultdict(set)
    for own in around:
        for name, value in own.returned.items():
            if value not in own.passed.values():
                held[name].add(value)
    return sum(2 * len(values) >= len(around) for values in held.values()) >= DETAILS


def _is_work(rows: Sequence[Thing], asks: _Asks) -> bool:
    """Whether things were worked through one by one, or their values were asked for."""
    if not _is_listed(rows):
        return True
    names = {name for own in rows for name in own.cells if name[:1] != _PASSED}
    held = {name: [own.cells[name] for own in rows if own.cells.get(name)] for name in names}
    return any(asks.asked(name, values) >= ASKED for name, values in held.items() if values)


def _is_listed(rows: Sequence[Thing]) -> bool:
    """Whether all of them are only entries of lists."""
    return all(_LIST in tool for own in rows for tool in own.newest)


def _is_counted(rows: Sequence[Thing]) -> bool:
    """Whether the calls that list things go on by one: pages, batches, days."""
    calls = {id(record.passed): record for own in rows for record, _ in own.newest.values()}
    passed = [record.passed for record in sorted(calls.values(), key=lambda own: own.seq)]
    ones = 0
    for before, after in pairwise(passed):
        for name, value in after.items():
            old, new = _NUMBER.findall(before.get(name, "")), _NUMBER.findall(value)
            if len(old) == len(new) and any(int(b) - int(a) == 1 for a, b in zip(old, new, strict=True)):
                ones += 1
                break
    return 2 * ones >= len(passed) - 1 > 0


_NUMBER = re.compile(r"\d{1,9}")


def _again(before: Record, now: Record, tool: str) -> bool:
    """Whether a call is the same once more."""
    if _LIST in tool:
        return True
    return all(now.passed.get(name, value) == value for name, value in before.passed.items())


def _settle(own: Thing, asks: _Asks) -> None:
    """The cells of a thing, from what counts of each tool."""
    for record, _ in own.newest.values():
        passed = {k: v for k, v in record.passed.items() if own.key not in v}
        returned = {
            ("" if own.key in k or k in passed.values() else k): v
            for k, v in ((k, v if k else _bare(v)) for k, v in record.returned.items())
            if v != own.key and record.passed.get(k) != v
        }
        own.said.update(k for k, v in record.returned.items() if v == own.key or record.passed.get(k) == v)
        own.cells.update({f"{_PASSED}{k}": v for k, v in passed.items()})
        own.cells.update(returned)
    named = {name: value for name, value in own.cells.items() if name[:1] not in {_PASSED, _SAID, _LINE}}
    told = _letters(" ".join(word for pair in named.items() for word in pair))
    for record, _ in own.newest.values():
        lines = asks.lines(record.lines, own.key)
        news = {word for line in lines for word in _letters(line) - told if asks.word(word) > LITTLE}
        if lines and (news or not named):
            own.cells[_LINE] = _without(" ".join(map(_bare, lines)), own.key)
            own.texts.extend(lines)


def _bare(line: str) -> str:
    """A printed line without the time that opens it, and what is drawn around it."""
    line = _CLOCK.sub("", line)
    for mark in "=-*#_~":
        line = line.strip(mark).strip() if mark * 3 in line else line
    return line


def _leaf(name: str) -> str:
    """The last part of a name; another column of that kind was less asked for."""
    return name.rpartition(".")[2]


_CLOCK = re.compile(r"^[\[(]?[\dTZ:.,/+-]{5,32}(?: [\d:.,]{5,16})?[\])]?[\s:|-]+")
"""What opens a line of a log."""


def _leaves(rows: Sequence[Thing]) -> None:
    """Calls values that stand in several forms of a record by the last part of their names."""
    paths: dict[str, set[str]] = defaultdict(set)
    twice: set[str] = set()
    for own in rows:
        leaves = Counter(_leaf(name) for name in own.cells)
        twice.update(leaf for leaf, times in leaves.items() if times > 1)
        for name in own.cells:
            paths[_leaf(name)].add(name)
    shared = {leaf for leaf, names in paths.items() if len(names) > 1} - twice
    for own in rows if shared else ():
        own.cells = {(leaf if (leaf := k.rpartition(".")[2]) in shared else k): v for k, v in own.cells.items()}


def _add_said(rows: Sequence[Thing], told: Sequence[Told]) -> None:
    """Puts what was said about a thing after its result into its row; what the user says counts."""
    things: dict[str, Thing] = {own.key: own for own in rows}
    heads: dict[str, list[str]] = defaultdict(list)
    for key in things:
        if m := _WORD.search(key):
            heads[m[0]].append(key)
    for seq, by_user, text in told:
        unspaced = UNSPACED.search(text) is not None
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
        if not own.done or seq <= own.done or not _values(rest) or rest.rstrip("* ")[-1:] == ":":
            continue
        if by_user and _corrected(own, rest, seq):
            continue
        own.cells[_SAID] = f"user: {rest}" if by_user else rest
        own.seqs.append(seq)
        own.texts.append(text)


_WORD = re.compile(r"\w+")


def _corrected(own: Thing, said: str, seq: int) -> bool:
    """Whether a sentence gives a cell another value, which then stands there."""
    values = _VALUE.findall(said)
    words = {*_WORDS.findall(said.lower())}
    for name, old in own.cells.items():
        if name == _SAID or not old:
            continue
        parts = _WORDS.findall(_CAMEL.sub(" ", name).lower())
        new = [value for value in values if value != old and kind_of(value) == kind_of(old)]
        if new and (old in values or parts and words.issuperset(parts)):
            own.cells[name] = f"{new[0]} (turn {seq}, was {old})"
            own.seqs.append(seq)
            return True
    return False


def _cover(
    rows: Iterable[Thing], columns: Collection[str], covered: dict[int, list[Covered]], texts: set[str]
) -> None:
    """Notes where the values of a table's things stand elsewhere: alone they would have no owner."""
    for own in rows:
        for place in own.places:
            fields = frozenset() if place.whole else frozenset(number(KEY, each) for each in place.names)
            if place.whole or fields:
                covered[place.seq].append(Covered(place.first, place.last, fields))
        if _LINE in columns or _SAID in columns:
            texts.update(own.texts)


def _values(text: str) -> set[int]:
    """What a cell says, but for words that say nothing; all of them if it says nothing else."""
    ids = concepts(text, prose=False)
    return {each for each in ids if each & KIND != PLAIN} or set(ids)


def _without(text: str, key: str) -> str:
    """A sentence without the name of the thing that its row is of."""
    before, _, after = text.partition(key)
    if before.strip(" *-•#") or after[:1].isalnum():
        return text.rstrip(".")
    return after.lstrip(" *:：,;-–—=>").rstrip(".")
