"""What is kept of covered turns beside a context, and how it is stored: from commit to commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turnmill_worker.reading.echoes import Makes
from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.said import Sentence
from turnmill_worker.reading.said import restored as sentences_restored
from turnmill_worker.reading.said import stored as sentences_stored
from turnmill_worker.reading.states import States
from turnmill_worker.reading.tables import Tables
from turnmill_worker.reading.words import Packed, Packing, packed

__all__ = ["FORMAT", "NOTHING_KNOWN", "Known"]

FORMAT: Final = "1.1"
"""What is written. Before 1.1, every number of a word stood there in digits, in its value's row."""

Parts = tuple[Tables, States, Makes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is kept of covered turns beside a context; every part knows from which turn it came.

    Attributes:
        through: the newest turn it knows of.
        readings: the best of what was read.
        said: what users said that lasts.
        tables, states, makes: as `Tables`, `States` and `Makes` are stored.
        older: the pool of a version before there were readings; read when it is chosen from.
    """

    through: int = 0
    readings: tuple[Reading, ...] = ()
    said: tuple[Sentence, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)
    makes: Mapping[str, Any] = field(default_factory=dict)
    older: tuple[Mapping[str, Any], ...] = ()
    _built: list[Parts] = field(default_factory=list, compare=False, repr=False)

    def up_to(self, watermark: int) -> Known:
        """What is known of turns up to the watermark: what came after it was rolled back."""
        if self.through <= watermark:
            return self
        tables, states, makes = self.parts(len)
        for part in (tables, states, makes):
            part.up_to(watermark)
        return Known(
            through=watermark,
            readings=tuple(each for each in self.readings if each.seq <= watermark),
            said=tuple(
                each._replace(past=each.past if each.past <= watermark else 0)
                for each in self.said
                if each.seq <= watermark
            ),
            tables=tables.to_json(),
            states=states.to_json(),
            makes=makes.to_json(),
            older=tuple(each for each in self.older if each["seq"] <= watermark),
        )

    def parts(self, count: Callable[[str], int]) -> Parts:
        """Tables, states and makes, to go on with: nobody else gets the same."""
        # That what was stored is whole was seen by building them; mostly they are asked for once.
        tables, states, makes = self._built.pop() if self._built else self._parts()
        tables.count = count
        return tables, states, makes

    def _parts(self) -> Parts:
        return (
            Tables.from_json(self.tables, len) if self.tables else Tables(len),
            States.from_json(self.states) if self.states else States(),
            Makes.from_json(self.makes) if self.makes else Makes(),
        )

    def between(self, first: int, last: int) -> Known:
        """The readings of some turns alone."""
        return Known(readings=tuple(each for each in self.readings if first <= each.seq <= last))

    def stored(self) -> dict[str, Any]:
        """As plain values."""
        ids = Packing()
        rows = [each.stored(ids) for each in self.readings]
        return {
            "through": self.through,
            "readings": {"rows": rows, "ids": ids.text()},
            "said": sentences_stored(self.said),
            "tables": self.tables,
            "states": self.states,
            "makes": self.makes,
        }

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Known:
        """What was stored, by this version or by one that knew no readings.

        Raises:
            AttributeError, LookupError, TypeError, ValueError, struct.error: it is something else.
        """
        if "pool" in values:
            older = tuple(map(_pooled, values["pool"]))
            return cls(older=older, through=max((own["seq"] for own in older), default=0))
        if isinstance(values.get("readings"), list):
            values = _of_first_format(values)
        if "readings" not in values:
            return cls()
        ids = Packed(values["readings"]["ids"])
        found = cls(
            through=values["through"],
            readings=tuple([Reading.restored(own, ids) for own in values["readings"]["rows"]]),
            said=tuple(sentences_restored(values["said"])),
            tables=values["tables"],
            states=values["states"],
            makes=values["makes"],
        )
        found._built.append(found._parts())
        return found


NOTHING_KNOWN: Final = Known()


def _pooled(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line of an older pool, if it is one."""
    groups = [{**each, "texts": [*each["texts"]]} for each in line["groups"]]
    return {**line, "seq": int(line.get("seq") or 0), "groups": groups}


def _of_first_format(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was stored before 1.1, as it is now."""
    ids, roots, words = Packing(), Packing(), Packing()
    readings = [
        [
            *opens,
            asks,
            [[label, tokens, ids.put(own)] for label, tokens, own in labels],
            [[text, tokens, ids.put(own), *more] for text, tokens, own, *more in passages],
        ]
        for *opens, labels, passages, asks in values["readings"]
    ]
    said = [[seq, text, *more, roots.put(own)] for seq, text, own, *more in values.get("said", ())]
    tables, makes = dict(values.get("tables") or {}), dict(values.get("makes") or {})
    if tables:
        tables["spoken"] = _pairs(tables["spoken"])
    if makes:
        makes["sayings"] = [[*own, words.put(each)] for *own, each in makes["sayings"]]
        numbers, makes["times"] = _pairs(makes["times"])
        makes["ids"] = [words.text(), numbers]
    return {
        "through": values.get("through", 0),
        "readings": {"rows": readings, "ids": ids.text()},
        "said": {"rows": said, "ids": roots.text()},
        "tables": tables,
        "states": values.get("states") or {},
        "makes": makes,
    }


def _pairs(counted: Sequence[tuple[int, int]]) -> tuple[str, list[int]]:
    """Numbers, each with a value, apart."""
    return packed(number for number, _ in counted), [value for _, value in counted]
