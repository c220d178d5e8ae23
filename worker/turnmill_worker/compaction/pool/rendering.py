"""Chosen units as text: one line per message, call or result that keeps anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from turnmill_worker.old_reading.units import ALIKE_MARK, GROUP_MARK, TALK, TOOLS, Line, Source, Unit

__all__ = ["is_told", "opening", "render"]

_UNNAMED = "unknown"
"""A tool that nobody knows, like that of a result without its call."""


def opening(line: Line, *, named: bool = False) -> str:
    """`12 user:`; with `named`, it was told before: a speaker's name stands alone, a tool's not."""
    seq = "" if line.seq is None else f"{line.seq} "
    if not line.name:
        return f"{seq}{line.source.value}:"
    if not named:
        return f"{seq}{line.source.value} {line.name}:"
    return f"{seq}{line.name if line.source in TALK else line.source.value}:"


def render(
    lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str], chosen: Iterable[int]
) -> str:
    """The chosen units, in conversation order.

    Of records that follow each other, a label that all have is told once; so is a tool's name.
    """
    told: dict[str, Source] = {}
    tool = ""
    out: list[str] = []
    at_line = at_group = -1
    label = ""
    for index in sorted(chosen):
        unit = units[index]
        if unit.line != at_line:
            at_line, at_group, label = unit.line, unit.group, unit.label
            line = lines[at_line]
            named = is_told(line, told) or (line.source in TOOLS and line.name == tool)
            # Behind a tool that was told, no name would read as the same tool.
            is_other = bool(tool) and line.source in TOOLS and not line.name
            shown = replace(line, name=_UNNAMED) if is_other else line
            tool = line.name if line.source in TOOLS else ""
            out += ["\n" if out else "", opening(shown, named=named), " "]
            out.append(f"{label}: " if label else "")
        elif unit.group != at_group:
            at_group = unit.group
            if unit.label == label and unit.body_at:
                out.append(ALIKE_MARK)
            else:
                label = unit.label
                out.append(f"{GROUP_MARK}{label}: " if label else GROUP_MARK)
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
