"""The labelled data: messages with their rules, whole sessions, and pairs of sentences.

Everything was written by hand for this project. A rule stands between ``[[`` and ``]]``; a message
without has none. In a session a rule has a name, ``[[a|rule]]``, and what takes it back later says
so: ``{{a|change}}``. What is in ``held_out`` is never fitted to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"
FITTED, HELD_OUT = DATA / "fitted", DATA / "held_out"
BESIDE = "other_languages"
"""The folder in each of them with a file for each language beside English."""

_MARKED = re.compile(r"\[\[(\w+)\|(.*?)\]\]|\{\{(\w+)\|(.*?)\}\}")


def bare(text: str) -> str:
    """A text without its spaces."""
    return "".join(text.split())


class Message(NamedTuple):
    """What somebody wrote, and where its rule stands, if it has one."""

    text: str
    rule: tuple[int, int] | None

    def share(self, start: int, end: int) -> float:
        """How much of what stands between two places is of the rule; spaces do not count."""
        if self.rule is None or start >= end:
            return 0.0
        first, last = (bare(self.text[:place]) for place in self.rule)
        return max(0, min(end, len(last)) - max(start, len(first))) / (end - start)


class Typed(NamedTuple):
    """A message of a session: the rule it lays down and the one it changes, each by its name."""

    message: Message
    rule: tuple[str, str] | None
    change: tuple[str, str] | None


class Pair(NamedTuple):
    """An earlier and a later sentence, and whether the later one replaces the earlier one."""

    older: str
    newer: str
    replaced: bool


def _lines(path: Path) -> Iterator[str]:
    yield from path.read_text(encoding="utf-8").splitlines()


def written(path: Path) -> Iterator[Message]:
    """The messages of a file."""
    for line in _lines(path):
        before, opened, rest = line.replace("\\n", "\n").partition("[[")
        rule, _, after = rest.partition("]]")
        place = (len(before), len(before) + len(rule)) if opened else None
        yield Message(before + rule + after, place)


def session(path: Path) -> Iterator[Typed]:
    """What one person types, in order; a message has one mark at most."""
    for line in _lines(path):
        whole = line.replace("\\n", "\n")
        rule, change, place = None, None, None
        if found := _MARKED.search(whole):
            rule = (found[1], found[2]) if found[1] else None
            change = (found[3], found[4]) if found[3] else None
            place = (found.start(), found.start() + len(found[2])) if found[1] else None
        yield Typed(Message(_MARKED.sub(r"\2\4", whole), place), rule, change)


def sessions(folder: str) -> list[list[Typed]]:
    """All sessions that are fitted to, or held out."""
    return [list(session(path)) for path in sorted((DATA / "sessions" / folder).glob("*.txt"))]


def typed(whole: list[Typed]) -> list[Message]:
    """The messages of a session, without what changes a rule said before."""
    return [each.message for each in whole if not each.change]


def handwritten() -> Iterator[Message]:
    """Messages that were written to try the first patterns: plainly worded, and freely."""
    for name in ("plainly_worded", "freely_worded"):
        for row in map(json.loads, _lines(DATA / f"{name}.jsonl")):
            start = row["text"].find(row["rule"]) if row["rule"] else -1
            place = (start, start + len(row["rule"])) if start >= 0 else None
            yield Message(row["text"], place)


def messages(folder: Path) -> dict[str, list[Message]]:
    """The messages of each file of a folder."""
    return {path.stem: list(written(path)) for path in sorted(folder.glob("*.txt"))}


def remarks(folder: str) -> list[Pair]:
    """Rules, and what the same user says much later, which often is near them and nothing more."""
    rows = (
        json.loads(line)
        for path in sorted((DATA / "remarks" / folder).glob("*.jsonl"))
        for line in _lines(path)
    )
    return [Pair(row["first"], row["later"], row["relation"] != "none") for row in rows]


def updates() -> list[Pair]:
    """Facts, and what is said of them later, or of something else."""
    rows = map(json.loads, _lines(DATA / "updates.jsonl"))
    found = [Pair(row["said"][0], row["said"][1], bool(row["old"])) for row in rows]
    for line in _lines(DATA / "replaced.txt"):
        older, sign, newer = re.split(r" (=>|=/) ", line)
        found.append(Pair(older, newer, sign == "=>"))
    return found


def leads() -> Iterator[tuple[str, bool]]:
    """What stands before colons, and whether it hands over what somebody else wrote."""
    for line in _lines(DATA / "leads.txt"):
        yield line[2:-1], line[0] == ">"
