"""What a tool returns as records, whatever it is written in: JSON, CSV, a drawn table, lines.

A record is a list of named plain values. Everything behind this module sees records and lines, and
no formats.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.words import CODE, kind_of

CELL: Final = 160
"""Characters of the longest value that is shown in a table."""

Fields = list[tuple[str, str]]


class Group(NamedTuple):
    """Values that stand together.

    Attributes:
        label: what they are of, or "".
        prefix: what stands before their names elsewhere in the record.
    """

    label: str
    prefix: str
    fields: Fields


class Record(NamedTuple):
    """One thing that is told of; ``path``: the list it is one of, "" for what stands alone."""

    path: str
    groups: tuple[Group, ...]
    whole: bool = True


class Printed(NamedTuple):
    """A text as records, or as named values; and the lines that are neither."""

    records: tuple[Fields, ...]
    fields: Fields
    lines: tuple[str, ...]


_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_FEW: Final = 4
_DEEPEST: Final = 32
_MANY: Final = 2
_PATH: Final = "."
ROWS: Final = "rows"
"""The list of what is nothing but a list."""


def plain(value: Any) -> str:
    """A value as text."""
    try:
        return (
            json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
        )
    except RecursionError:
        return "…"


def of_value(value: Any) -> Iterator[Record]:
    """The records of a JSON value: what stands alone, and each entry of the lists in it."""
    listed: list[tuple[str, Any]] = []
    alone = tuple(_groups(value, "", "", 0, listed))
    if alone:
        yield Record("", alone, whole=not listed)
    for path, entries in listed:
        yield from _entries(path, ends(entries))


def _entries(path: str, entries: list[Any]) -> Iterator[Record]:
    """The entries of a list as records; what all of them say alike is said once, in front."""
    if len(entries) > 1 and all(isinstance(each, dict) for each in entries):
        first = entries[0]
        alike = {
            key: own
            for key, own in first.items()
            if own not in _EMPTY and all(each.get(key) == own for each in entries)
        }
        if alike:
            prefix = "" if path == ROWS else f"{path}{_PATH}"
            yield Record("", tuple(_groups(alike, "all", prefix, 0, None)), whole=False)
            entries = [{k: v for k, v in each.items() if k not in alike} for each in entries]
    for each in entries:
        yield Record(path, tuple(_groups(each, path.rpartition(_PATH)[2], "", 0, None)))


def _groups(
    value: Any, label: str, prefix: str, depth: int, listed: list[tuple[str, Any]] | None
) -> Iterator[Group]:
    """The groups of a value; lists of objects go to ``listed`` if it is there."""
    if depth > _DEEPEST:
        yield Group(label, prefix, [("", "…")])
    elif isinstance(value, list):
        if listed is not None and any(isinstance(each, dict) for each in value):
            listed.append((prefix.strip(_PATH) or ROWS, value))
            return
        for each in value:
            yield from _groups(each, label, prefix, depth + 1, listed)
    elif not isinstance(value, dict):
        yield Group(label, prefix, [("", plain(value))])
    else:
        keyed = _keyed(value)
        if keyed is not None and listed is not None:
            listed.append((prefix.strip(_PATH) or ROWS, keyed))
            return
        yield from _object(value, label, prefix, depth, listed)


def _object(
    value: Mapping[str, Any],
    label: str,
    prefix: str,
    depth: int,
    listed: list[tuple[str, Any]] | None,
) -> Iterator[Group]:
    fields, inner = _fields(value)
    named = next((at for at, (key, own) in enumerate(fields) if _names(key, own)), None)
    if named is not None:
        key, own = fields[named]
        label = f"{key}={own}" if own not in label else label
    if fields:
        yield Group(label, prefix, fields)
    for key, own in inner:
        told = label if "=" in label and isinstance(own, dict) and _keyed(own) is None else key
        yield from _groups(own, told, f"{prefix}{key}{_PATH}", depth + 1, listed)


def _keyed(value: Mapping[str, Any]) -> list[Any] | None:
    """The entries of an object that is a list by another name: one object for each identifier."""
    if len(value) < _MANY or not all(isinstance(own, dict) and own for own in value.values()):
        return None
    if not all(kind_of(key) == CODE for key in value):
        return None
    return [own if key in own.values() else {"key": key, **own} for key, own in value.items()]


def within(text: str) -> tuple[str, Any]:
    """What stands before the JSON in a text, and the JSON, or None; lines of JSON are a list."""
    if (value := parsed(text)) is not None:
        return "", value
    lines = text.strip().removesuffix("```").rstrip().split("\n")
    start = next((at for at, line in enumerate(lines[:_HEAD]) if line[:1] in {"{", "["}), None)
    if start is None:
        return text, None
    before = "\n".join(line for line in lines[:start] if not line.startswith("```"))
    each = (
        [parsed(line) for line in lines[start:]]
        if len(lines) - start > 1 and lines[start][-1:] in "}]"
        else [None]
    )
    if all(isinstance(own, dict) for own in each):
        return before, each
    value = parsed("\n".join(lines[start:]))
    return (text, None) if value is None else (before, value)


_HEAD: Final = 8
"""Lines that may stand before JSON."""


def parsed(text: str) -> Any:
    """The JSON that a text is, or None."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _fields(value: Mapping[str, Any]) -> tuple[Fields, list[tuple[str, Any]]]:
    """The plain values of an object, and what is in it that has its own."""
    fields: Fields = []
    inner: list[tuple[str, Any]] = []
    for key, told in ends(list(value.items())):
        if told in _EMPTY:
            continue
        own = told if not isinstance(told, str) or (opened := parsed(told)) is None else opened
        deep = (
            list(own.values() if isinstance(own, dict) else own)
            if isinstance(own, dict | list)
            else []
        )
        flat = not any(isinstance(each, dict | list) for each in deep)
        if isinstance(own, dict) and len(own) <= _FEW and flat and kind_of(key) != CODE:
            fields += [
                (f"{key}{_PATH}{name}", plain(x)) for name, x in own.items() if x not in _EMPTY
            ]
        elif isinstance(own, list) and flat:
            fields.append((str(key), "|".join(map(str, own))))
        elif deep:
            inner.append((str(key), own))
        else:
            fields.append((str(key), plain(own)))
    return fields, inner


def _names(key: str, value: str) -> bool:
    """Whether a field says which thing its record is of."""
    low = key.lower()
    return (
        " " not in value
        and (low.endswith(("id", "number", "key")) or low == "name")
        and kind_of(value) == CODE
    )


def flat(groups: Sequence[Group]) -> dict[str, str]:
    """The values of a record that fit into a cell, by their whole names."""
    return {
        f"{group.prefix}{key}": " ".join(own.split())
        for group in groups
        for key, own in group.fields
        if len(own) <= CELL
    }


# Text

MOST: Final = 4_000
"""Lines and records of a message that are read: of more, the first and the last."""
_TITLE: Final = 40
_LINE: Final = 2000
_LEAST: Final = 3
"""Lines of a table, its header among them."""

_RULED: Final = frozenset(" \t|+:=─━┼├┤│-")
_PAIR = re.compile(r"\W{0,4}([^\W\d_][^:=：\n,;|{}()<>]{0,40}?)\s*(?:[:：]|=)(?![/=:])\s*(\S.*)")
_LOGFMT = re.compile(r"([^\W\d][\w.-]*)=(\"[^\"]*\"|[^\s\",;]+)")


def ends(parts: list[Any]) -> list[Any]:
    """The first and the last of too many."""
    return parts if len(parts) <= MOST else [*parts[: MOST // 2], *parts[-MOST // 2 :]]


def _is_ruled(line: str) -> bool:
    """Whether a line is drawn between the titles of a table and its rows."""
    return any(mark in line for mark in ("--", "==", "──", "━━")) and _RULED.issuperset(line)


def of_text(text: str) -> Printed:
    """What a text says as records and values, and what is left of it as lines."""
    lines = [line.rstrip() for line in ends(text.split("\n"))]
    rows: list[Fields] = []
    left: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip() and not line.startswith("```"):
            block.append(line)
            continue
        if block:
            found, others = _drawn(block)
            rows += found
            left += others
            block = []
        left.append("")
    if not rows:
        rows, left = _blocks(left)
    if rows:
        return Printed(tuple(rows), [], tuple(own for own in left if own))
    return Printed((), *_pairs(own for own in left if own))


def _drawn(block: Sequence[str]) -> tuple[list[Fields], Sequence[str]]:
    """The rows of the table in a block of lines, if it is or ends in one."""
    for start in range(min(3, len(block) - _LEAST + 1)):
        lines = block[start:]
        if _cells(lines[: _LEAST + 1]) and (cells := _cells(lines)):
            titles = cells[0]
            rows = [
                list(zip(titles, row, strict=True)) for row in cells[1:] if len(row) == len(titles)
            ]
            others = [
                *block[:start],
                *(" ".join(row) for row in cells[1:] if len(row) != len(titles)),
            ]
            return [[(k, v) for k, v in row if v and v != "-"] for row in rows], others
    return [], block


def _cells(lines: Sequence[str]) -> list[list[str]]:
    """The cells of a table, its titles first; nothing if it is none."""
    if all("|" in line or "│" in line for line in lines[:2]):
        body = [line for line in lines if not _is_ruled(line)]
        cut = [_CUT.split(line.strip().strip("|│")) for line in body]
        cut = [[cell.strip(" *") for cell in row] for row in cut]
        return cut if _is_table(cut) else []
    for mark in "\t;,":
        if lines[0].count(mark) and lines[0].count(mark) <= lines[1].count(mark):
            cut = _csv(lines, mark)
            if _is_table(cut):
                return cut
    body = [line for line in lines if not _is_ruled(line)]
    cut = [_WIDE.split(line.strip()) for line in body]
    if _is_table(cut):
        return cut
    return _columned(body)


_CUT = re.compile(r"[|│]")
_WIDE = re.compile(r"(?: {2,}|\t+)")


def _csv(lines: Sequence[str], mark: str) -> list[list[str]]:
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
    except csv.Error:
        return []


def _columned(lines: Sequence[str]) -> list[list[str]]:
    """Cells under their titles, some of which are empty."""
    starts = [m.start() for m in re.finditer(r"(?:^|(?<=\s\s))\S", lines[0])] if lines else []
    if len(starts) < _LEAST or starts[0] > 0:
        return []
    ends = [*starts[1:], None]
    if any(line[at - 1 : at].strip() for line in lines for at in starts[1:]):
        return []
    cut = [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in lines]
    return cut if _is_table(cut) else []


def _is_table(cells: Sequence[Sequence[str]]) -> bool:
    """Whether rows have as many cells as there are titles, and the titles are titles."""
    if len(cells) < _LEAST or len(cells[0]) < _MANY:
        return False
    titles = cells[0]
    if len(set(titles)) < len(titles) or any(not own or len(own) > _TITLE for own in titles):
        return False
    if any(own[0].isdigit() or own[-1] in ".!?。" for own in titles):
        return False
    fit = sum(len(row) == len(titles) for row in cells)
    return fit >= 0.9 * len(cells) and all(len(own) <= CELL for row in cells for own in row)


def _blocks(lines: Sequence[str]) -> tuple[list[Fields], list[str]]:
    """Records that are written as blocks of named values, or as one line of them each."""
    blocks: list[Fields] = [[]]
    left: list[str] = []
    whole: list[Fields] = []
    for line in lines:
        if len(pairs := one_line(line)) > 1:
            whole.append(pairs)
        elif len(line) <= CELL + _TITLE and (m := _PAIR.fullmatch(line)):
            if blocks[-1] and m[1].strip() == blocks[-1][0][0]:
                blocks.append([])
            blocks[-1].append((m[1].strip(), m[2]))
        elif line and not _is_ruled(line):
            left.append(line)
    for found in (whole, blocks):
        names = Counter(key for row in found for key, _ in row)
        if len(found) > 1 and len(found[0]) > 1 and sum(n > 1 for n in names.values()) > 1:
            return found, left
    return [], [line for line in lines if line]


def one_line(line: str) -> Fields:
    """The named values of one line, ``a=1 b=2`` or ``a: 1, b: 2``; nothing if it says more."""
    if len(line) > _LINE:
        return []
    if line.count("=") > 1:
        pairs = _LOGFMT.findall(line)
        if len(pairs) > 1:
            before = line.partition(pairs[0][0] + "=")[0].strip()
            own = [("", before)] if before and len(before) <= CELL else []
            return own + [(key, value.strip('"')) for key, value in pairs]
    for mark in ("|", ";", ","):
        parts = line.split(f"{mark} ") if mark == "," else line.split(mark)
        if 1 < len(parts) <= _TITLE:
            found = [_PAIR.fullmatch(part.strip()) for part in parts]
            if all(found):
                return [(m[1].strip(), m[2].strip().rstrip(".")) for m in found if m]
    return []


def _pairs(lines: Iterator[str]) -> tuple[Fields, tuple[str, ...]]:
    """The named values of lines, and the lines that have none; the last line is always one."""
    fields: Fields = []
    left: list[str] = []
    last = ""
    for line in lines:
        last = line
        if len(pairs := one_line(line)) > 1:
            fields += pairs
        elif (
            len(line) <= CELL + _TITLE
            and (m := _PAIR.fullmatch(line))
            and len(m[1].split()) <= _FEW
        ):
            fields.append((m[1].strip(), m[2]))
        else:
            left.append(line)
    if left and left[-1] != last:
        left.append(last)
    return fields, tuple(left)


# Lists that are handed over whole


_STATES: Final = 6
_ENTRIES: Final = 200


def listed_items(value: Any) -> tuple[tuple[str, str], ...]:
    """What a list says whose entries are one text and one state: a plan; nothing of other lists."""
    if isinstance(value, str):
        return checklist(value.split("\n"))
    if not (isinstance(value, list) and 1 < len(value) <= _ENTRIES):
        return ()
    if all(isinstance(each, str) for each in value):
        return checklist(value)
    return _planned(value) if all(isinstance(each, dict) and each for each in value) else ()


def _planned(value: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """The entries of a list of objects: the longest is the text, what takes few words the state."""
    rows = [{key: str(own) for key, own in each.items() if own not in _EMPTY} for each in value]
    lengths: Counter[str] = Counter()
    for row in rows:
        lengths.update({key: len(own) for key, own in row.items()})
    text = max(lengths, key=lengths.__getitem__, default="")
    states = [
        key for key in rows[0] if key != text and _is_state([row.get(key, " ") for row in rows])
    ]
    if not states or sum(
        " " in row.get(text, "") or not row.get(text, "").isascii() for row in rows
    ) * 2 <= len(rows):
        return ()
    held = sum(lengths.values())
    state = max(states, key=lambda key: sum(len(row[key]) for row in rows))
    if 2 * (lengths[text] + lengths[state]) < held:
        return ()
    return tuple((row.get(text, ""), row[state]) for row in rows)


def _is_state(values: Sequence[str]) -> bool:
    return len(set(values)) <= _STATES and all(own and " " not in own.strip() for own in values)


_BOX = re.compile(
    r"\s*(?:(?:[-*+•]|\d{1,4}[.)])\s{1,4})?(\[[^\]\w]?\w?[^\]\w]?\]|[☐☑☒✅✔✓✗❌⬜⏳🔄🟢🟡🔴⚪➡▶])\ufe0f?\s+(\S.*)"
)


def checklist(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The entries of a list whose lines open with a box: the text and the box of each."""
    found = [m for line in lines if len(line) <= _LINE and (m := _BOX.fullmatch(line))]
    return tuple((m[2].strip(), m[1]) for m in found) if 1 < len(found) <= _ENTRIES else ()
