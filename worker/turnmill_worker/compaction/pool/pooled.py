"""The pool as it is stored, and as units again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.units import Line, Source, Unit, Units

__all__ = ["PooledGroup", "PooledLine", "pooled", "pooled_up_to", "units_of"]


_ONLY_SAID: Final = frozenset({Role.SAID})


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledGroup:
    """Sentences of one text, or fields of one record.

    Attributes:
        texts: as they were written, in order; ``key=value`` for fields.
        label: what opens the record, or ``""``.
        body_at: where the value starts in each text; empty for sentences.
        standings: of each text; see ``reading.units.Unit``.
        roles: of each text; empty where all are said.
    """

    texts: tuple[str, ...]
    label: str = ""
    body_at: tuple[int, ...] = ()
    standings: tuple[float, ...]
    roles: tuple[Role, ...] = ()

    @classmethod
    def of(cls, units: Sequence[Unit], standings: Iterable[float]) -> PooledGroup:
        """One group's units."""
        body_at = tuple([unit.body_at for unit in units])
        roles = tuple([unit.role for unit in units])
        return cls(
            texts=tuple([unit.text for unit in units]),
            label=units[0].label,
            body_at=body_at if any(body_at) else (),
            standings=tuple([round(standing, 3) for standing in standings]),
            roles=() if _ONLY_SAID.issuperset(roles) else roles,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledLine:
    """What is kept of one message, call or result.

    Attributes:
        seq: its turn; None when it came from a summary that did not tell.
        source: who it comes from.
        name: the speaker's or the tool's, or ``""``.
        groups: in order.
    """

    seq: int | None
    source: Source
    groups: tuple[PooledGroup, ...]
    name: str = ""


def pooled(
    units: Units, chosen: Iterable[int], standings: Sequence[float]
) -> tuple[PooledLine, ...]:
    """These units, in conversation order, word for word."""
    own = units.units
    found = []
    for at, members in groupby(sorted(chosen), key=lambda position: own[position].line):
        line = units.lines[at]
        groups = [list(group) for _, group in groupby(members, key=lambda one: own[one].group)]
        found.append(
            PooledLine(
                seq=line.seq,
                source=line.source,
                name=line.name,
                groups=tuple(
                    PooledGroup.of([own[one] for one in group], [standings[one] for one in group])
                    for group in groups
                ),
            )
        )
    return tuple(found)


def units_of(pool: Sequence[PooledLine]) -> Units:
    """The units that were kept."""
    found = Units([], [])
    for line in pool:
        found.lines.append(Line(line.seq, line.source, line.name))
        for group in line.groups:
            size = len(group.texts)
            body_at, roles = group.body_at or (0,) * size, group.roles or (Role.SAID,) * size
            found.units += [
                Unit(len(found.lines) - 1, found.groups, group.label, text, at, role, standing)
                for text, at, role, standing in zip(
                    group.texts, body_at, roles, group.standings, strict=True
                )
            ]
            found.groups += 1
    return found


def pooled_up_to(pool: Sequence[PooledLine], watermark: int) -> tuple[PooledLine, ...]:
    """What was kept of turns up to the watermark: what came after it was rolled back."""
    return tuple(line for line in pool if line.seq is None or line.seq <= watermark)
