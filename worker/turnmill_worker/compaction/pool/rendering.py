"""Chosen units as text: one line per message, call or result that keeps anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnmill_worker.reading.units import GROUP_MARK, TALK, Line, Source, Unit

__all__ = ["is_told", "opening", "render"]


def opening(line: Line, *, named: bool = False) -> str:
    """`12 user:`; with `named`, the speaker's role was told before and the name stands for it."""
    seq = "" if line.seq is None else f"{line.seq} "
    if named and line.name:
        return f"{seq}{line.name}:"
    return f"{seq}{line.source.value}{' ' if line.name else ''}{line.name}:"


def render(
    lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str], chosen: Iterable[int]
) -> str:
    """The chosen units, in conversation order."""
    told: dict[str, Source] = {}
    out: list[str] = []
    at_line = at_group = -1
    for index in sorted(chosen):
        unit = units[index]
        if unit.line != at_line:
            at_line, at_group = unit.line, unit.group
            line = lines[at_line]
            out += ["\n" if out else "", opening(line, named=is_told(line, told)), " "]
            out.append(f"{unit.label}: " if unit.label else "")
        elif unit.group != at_group:
            at_group = unit.group
            out.append(f"{GROUP_MARK}{unit.label}: " if unit.label else GROUP_MARK)
        else:
            out.append(" ")
        out.append(texts[index])
    return "".join(out)


def is_told(line: Line, told: dict[str, Source]) -> bool:
    """Whether the name alone says who speaks; notes in `told` that it has been said."""
    if line.source not in TALK or not line.name:
        return False
    if line.name in told:
        return told[line.name] is line.source
    told[line.name] = line.source
    return False
