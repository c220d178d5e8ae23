"""What the models find, and what they take for it, on labelled data that was kept aside."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
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
    pairs = labelled.remarks("held_out")
    marked = [
        any(changes.replaces(pair.older, each, rule=True) for each in statements(pair.newer))
        for pair in pairs
    ]
    found = sum(mark and pair.replaced for mark, pair in zip(marked, pairs, strict=True))
    taken = sum(mark and not pair.replaced for mark, pair in zip(marked, pairs, strict=True))
    replaced = sum(pair.replaced for pair in pairs)
    yield Row("changes: remarks", found, replaced, taken, len(pairs) - replaced)
    right = whole = wrong = beside = 0
    for session in labelled.sessions("held_out"):
        said, changed = changed_in(session)
        newer = {each for _, each in changed}
        whole += len(newer)
        right += len({each for older, each in changed if _replaces(older, each)})
        others = [pair for pair in near(said) if pair not in changed]
        beside += len(others)
        wrong += sum(_replaces(*pair) for pair in others)
    yield Row("changes: sessions", right, whole, wrong, beside)


def _replaces(older: str, newer: str) -> bool:
    return changes.replaces(older, newer, rule=rules.score(older) >= rules.LEAST)


def talks_in(path: Path) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """The sessions of a file, each with its user's messages and where they stand."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for session in map(json.loads, lines):
            yield (
                session["session_id"],
                [
                    (at, message["content"])
                    for at, message in enumerate(session["messages"])
                    if message["role"] == "user" and isinstance(message["content"], str)
                ],
            )


def marks_in(path: Path) -> tuple[list[tuple[str, str]], int]:
    """What is marked in real conversations, of how many sentences: next to nothing should be."""
    marked, whole = [], 0
    for _, messages in talks_in(path):
        said = [(turn, each) for turn, text in messages for each in _own_statements(text)]
        whole += len(said)
        marked += [pair for pair in near(said) if _replaces(*pair)]
    return marked, whole


def _own_statements(text: str) -> list[str]:
    pieces = list(sentences(text))
    told = set(statements(text))
    mine = zip(pieces, own(pieces, text), strict=True)
    return [piece for piece, is_own in mine if is_own and piece in told][:MATERIAL]


def real_row(data: Path) -> Row:
    """What is found of rules in labelled messages of real conversations, and what is taken."""
    labels = labelled.real()
    found = whole = taken = others = 0
    for path in sorted(data.glob("*.jsonl.gz")):
        for session, messages in talks_in(path):
            for at, text in messages:
                row = labels.get((path.name.partition(".")[0], session, at))
                for place in row["rules"] if row else ():
                    message = Message(text, (place[0], place[1]))
                    whole += 1
                    found += any(message.share(*each) for each in rules_in(text))
                if row and row["label"] == "not":
                    others += 1
                    taken += bool(rules_in(text))
    return Row("rules: real", found, whole, taken, others)


def times() -> Iterator[tuple[str, float]]:
    """Microseconds a sentence, of sentences that were kept aside, once their words are known."""
    said = [
        each
        for messages in labelled.messages(labelled.HELD_OUT).values()
        for message in messages
        for each in sentences(message.text)
    ]
    asked: dict[str, Callable[[str], object]] = {
        "rules.score": rules.score.__wrapped__,
        "changes.may_change": changes.may_change,
    }
    for name, ask in asked.items():
        spent = []
        for _ in range(3):
            for cached in (changes.told, changes.as_newer):
                cached.cache_clear()
            start = time.process_time()
            for each in said:
                ask(each)
            spent.append(time.process_time() - start)
        yield name, 1e6 * min(spent) / len(said)
