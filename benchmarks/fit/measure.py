"""What the models find, and what they take for it, on labelled data that was kept aside."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.fit import labelled
from benchmarks.fit.changes import changed_in, near, statements
from benchmarks.fit.labelled import Message, bare
from turnmill_worker.reading import changes, rules
from turnmill_worker.reading.own_words import own
from turnmill_worker.reading.passages import sentences


class Row(NamedTuple):
    """How many are found of a whole, and how many others are taken for one."""

    name: str
    found: int
    whole: int
    taken: int
    others: int

    def __str__(self) -> str:
        found, taken = self.found / max(self.whole, 1), self.taken / max(self.others, 1)
        return f"{self.name:24}{self.whole:6}{found:8.3f}{self.others:8}{taken:8.4f}"


MATERIAL = 24
"""Sentences of a message from which on it is no talk."""


def rules_in(text: str) -> list[tuple[int, int]]:
    """The sentences of a message that are rules: their places in it, spaces not counted."""
    pieces = list(sentences(text))
    least, end, found = rules.least(len(pieces)), 0, []
    for piece, is_own in zip(pieces, own(pieces, text), strict=True):
        start, end = end, end + len(bare(piece))
        if is_own and rules.score(piece) >= least:
            found.append((start, end))
    return found


def rule_rows() -> Iterator[Row]:
    """What is found and taken of each kind of messages that were kept aside."""
    for name, messages in labelled.messages(labelled.HELD_OUT).items():
        yield _row(f"rules: {name}", messages)
    sessions = labelled.sessions("held_out")
    yield _row("rules: sessions", [each for whole in sessions for each in labelled.typed(whole)])
    languages = labelled.messages(labelled.HELD_OUT / labelled.BESIDE)
    for name, messages in languages.items():
        yield _row(f"rules: {name}", messages)
    yield _row("rules: languages", [each for messages in languages.values() for each in messages])


def _row(name: str, messages: Sequence[Message]) -> Row:
    having = [each for each in messages if each.rule]
    others = [each for each in messages if not each.rule]
    found = sum(any(each.share(*place) for place in rules_in(each.text)) for each in having)
    taken = sum(bool(rules_in(each.text)) for each in others)
    return Row(name, found, len(having), taken, len(others))


def pair_rows() -> Iterator[Row]:
    """What is found replaced of pairs that were kept aside, and of what is said in sessions."""
    found = {True: 0, False: 0}
    pairs = labelled.remarks("held_out")
    for older, newer, replaced in pairs:
        said = statements(newer)
        found[replaced] += any(changes.replaces(older, each, rule=True) for each in said)
    whole = sum(pair.replaced for pair in pairs)
    yield Row("changes: remarks", found[True], whole, found[False], len(pairs) - whole)
    right = whole = wrong = beside = 0
    for session in labelled.sessions("held_out"):
        spoken, changed = changed_in(session)
        later = {each for _, each in changed}
        whole += len(later)
        right += len({each for older, each in changed if _replaces(older, each)})
        others = [pair for pair in near(spoken) if pair not in changed]
        beside += len(others)
        wrong += sum(_replaces(*pair) for pair in others)
    yield Row("changes: sessions", right, whole, wrong, beside)


def _replaces(older: str, newer: str) -> bool:
    return changes.replaces(older, newer, rule=rules.score(older) >= rules.LEAST)


def talk(path: Path) -> tuple[Row, list[tuple[str, str]]]:
    """What of real conversations is taken for a rule, and what is marked: next to nothing is."""
    whole, laid_down, marked = 0, 0, []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for session in map(json.loads, lines):
            texts = [each["content"] for each in session["messages"] if each["role"] == "user"]
            told = [_own_statements(text) if isinstance(text, str) else [] for text in texts]
            said = [(turn, each) for turn, statements in enumerate(told) for each in statements]
            whole += len(said)
            laid_down += sum(rules.score(each) >= rules.LEAST for _, each in said)
            marked += [pair for pair in near(said) if _replaces(*pair)]
    return Row(f"talk: {path.name.partition('.')[0]}", laid_down, whole, len(marked), whole), marked


def _own_statements(text: str) -> list[str]:
    pieces = list(sentences(text))
    told = set(statements(text))
    mine = zip(pieces, own(pieces, text), strict=True)
    return [piece for piece, is_own in mine if is_own and piece in told][:MATERIAL]
