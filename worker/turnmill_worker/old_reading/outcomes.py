"""What came of an action: the lines of its output that say so, and the rest in whole blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.sentences import UNIT_CHARS, clean

__all__ = [
    "blocks",
    "is_short",
    "is_telling",
    "only_marks",
    "outcome",
    "telling_lines",
    "usual_openings",
]

_MOST_LINES: Final = 4
_LONGEST_LINE: Final = 160
_LONGEST: Final = 360
_MARKS: Final = 24
_SHORT: Final = 3
_SHORT_LOOK: Final = 6
_USUAL: Final = 3
_A_SERIES: Final = 3
_WORDY: Final = 4
_READ_LINES: Final = 2000
_BLOCK_CHARS: Final = UNIT_CHARS - 8
_LEAST_CHARS: Final = 24

_TELLS = re.compile(
    r"\b\d{1,6} (?:passed|failed|failures?|errors?|skipped|tests?|warnings?|problems?)\b"
    r"|^\W{0,4}(?:FAILED|FAIL|PASS|PASSED|ERROR|OK|not ok|E   )\b|^ok\b"
    r"|\b\w{0,40}(?:Error|Exception)\b|\b[EFW]\d{3}\b|^\W{0,3}(?:error|fatal|panic|warning)\b"
    r"|\b(?:exit(?:ed)?|return) ?(?:code|status)\b|\breturncode\b"
    r"|No such file|not found|cannot |denied|refused|timed? ?out|Segmentation fault|NOT been"
    r"|\bAssertion|\bundefined (?:reference|symbol)"
    r"|^\[(?:detached HEAD|[^\s\]]{1,80})(?: \(root-commit\))?"
    r" (?=[0-9]{0,39}[a-f])[0-9a-f]{7,40}\] ",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:success(?:fully|ful)?|complet(?:ed|e)|created|updated|edited|written|saved|replaced"
    r"|applied|installed|finished|built|deleted|removed)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,60}(?:\.\d{1,20})?")
# Prompts, what a shell tells of itself in brackets, and numbers of lines with nothing on them.
_EMPTY = re.compile(r"\W{0,3}\([^()]{1,300}\)\W{0,3}|\S{0,24}[$#>]|\d{1,6}[:|]")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{0,40})>")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}[A-Za-z]")
_NUMBERED = re.compile(r"^[ ]{0,8}(\d{1,6})\t", re.MULTILINE)
_FINE = re.compile(r"\W*(?:return|exit) ?(?:code|status)\W*0\W*|\W*exit code 0\W*", re.IGNORECASE)
_NO_OUTCOME = re.compile(
    r"\d{1,6}(?:[\t:|]|\s*$)|(?:raise|File|at|return|def|class|import|from|except|try|if)\b"
    r"|/[/*]|#|[-=*_]{3,}[^\d]*$|.{0,200}[;{}]\W{0,4}$"
)


def telling_lines(text: str) -> list[str]:
    """The lines of an output without prompts, empty lines and marks around it."""
    found = []
    text = _NUMBERED.sub(r"\1| ", clean(_COLOUR.sub("", text)))
    for row in text.split("\n"):
        line = " ".join(row.split())
        if "<" in line and len(line) < _LONGEST_LINE:
            line = "" if _TAG.fullmatch(line) else _TAG.sub(_untagged, line)
        if any(map(str.isalnum, line)) and not _EMPTY.fullmatch(line):
            found.append(line)
    return found


def only_marks(text: str) -> str:
    """The beginning of an output that has marks alone, such as a dot for each test; or ``""``."""
    line = " ".join(clean(_COLOUR.sub("", text)).split())
    return "" if any(map(str.isalnum, line)) else line[:_MARKS]


def _untagged(tag: re.Match[str]) -> str:
    return "" if tag[1] else f"{tag[2]} "


def usual_openings(texts: Iterable[str]) -> frozenset[str]:
    """First lines that come again and again and tell no outcome: they only say what follows."""
    times = Counter(" ".join(text.partition("\n")[0].split()) for text in texts)
    return frozenset(
        line
        for line, number in times.items()
        if number >= _USUAL and line.count(" ") >= _WORDY and not is_telling(line)
    )


def is_telling(line: str) -> bool:
    """Whether a line of an output says what came of it."""
    return _TELLS.search(line[:_LONGEST_LINE]) is not None


def is_short(lines: Sequence[str], role: Role) -> bool:
    """Whether all of an output stands beside its action: of what was looked at, some lines more."""
    most = _SHORT_LOOK if role is Role.LOOK else _SHORT
    return len(lines) <= most and sum(map(len, lines)) <= 2 * _LONGEST_LINE


def outcome(lines: Sequence[str], role: Role) -> str:
    """What the lines of an output say came of it, on one line."""
    if not lines:
        return "no output"
    kept = [line for line in lines if not _FINE.fullmatch(line)] or list(lines[:1])
    if is_short(kept, role):
        return " / ".join(kept)
    if role is Role.LOOK:
        return f"{len(kept)} lines"
    if role is Role.CHANGE:
        first = [line for line in kept[:3] if _DONE.search(line) or _TELLS.search(line)]
        told = (first[:1] or kept[:1]) + _telling(kept[1:])
    else:
        ends = [line for line in kept[-_SHORT:] if not _NO_OUTCOME.match(line)]
        printed = _series(kept)
        others = [line for line in kept[:-1] if line not in printed]
        told = _telling(others) + _ends_of(printed) + [e for e in ends[-1:] if e not in printed]
    return _joined([_short(line) for line in dict.fromkeys(told)]) or f"{len(kept)} lines"


def _telling(lines: Sequence[str]) -> list[str]:
    """The first and the last of the lines that tell an outcome; lines of a listing do not."""
    found = [
        line
        for line in [*lines[:_READ_LINES], *lines[_READ_LINES:][-_READ_LINES:]]
        if is_telling(line) and not _NO_OUTCOME.match(line)
    ]
    half = _MOST_LINES // 2
    return found if len(found) <= _MOST_LINES else [*found[:half], *found[-half:]]


def _series(lines: Sequence[str]) -> Mapping[str, None]:
    """What a program printed one by one: the lines that differ in numbers only, if most do."""
    alike: dict[str, dict[str, None]] = {}
    for line in lines[:_READ_LINES]:
        if len(line) <= _LONGEST_LINE and not _NO_OUTCOME.match(line):
            shape, numbers = _NUMBER.subn("", line)
            if numbers and shape:
                alike.setdefault(shape, {})[line] = None
    most = max(alike.values(), key=len, default={})
    return most if len(most) >= max(_A_SERIES, len(lines) // 2) else {}


def _ends_of(series: Mapping[str, None]) -> list[str]:
    """The first and the last of such lines, and how many there are."""
    if not series:
        return []
    first, *_, last = series
    return [first, f"{last} ({len(series)} lines like it)"]


def _short(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    end = line.rfind(" ", _LONGEST_LINE // 2, _LONGEST_LINE)
    return f"{line[: end if end > 0 else _LONGEST_LINE]} …"


def _joined(lines: Sequence[str]) -> str:
    text = ""
    for line in lines:
        longer = f"{text} / {line}" if text else line
        if len(longer) > _LONGEST and text:
            break
        text = longer
    return text


def blocks(lines: Sequence[str]) -> Iterator[str]:
    """The lines in readable blocks, each within the longest a unit may have."""
    block = ""
    for line in lines:
        longer = f"{block} ⏎ {line}" if block else line
        if len(longer) <= _BLOCK_CHARS:
            block = longer
            continue
        if block:
            yield block
        block = line if len(line) <= _BLOCK_CHARS else ""
    # A last line alone is a fragment.
    if len(block) >= _LEAST_CHARS:
        yield block
