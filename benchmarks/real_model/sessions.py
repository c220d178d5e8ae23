"""What is compacted: recorded sessions from a folder, or agent work made from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, zip_longest
from pathlib import Path
from typing import Any

from benchmarks.boards import other_shapes, regular_work
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import Counter
from turnmill_cli.evaluate.measuring import load, text_of, usable


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One to be played: its window, and what is pushed."""

    name: str
    max_tokens: int
    system: str
    messages: tuple[JsonMessage, ...]


def made(name: str, max_tokens: int) -> Session:
    """Agent work of this kind and seed, such as ``alerts-1``."""
    kind, _, seed = name.rpartition("-")
    run: Any = regular_work.run if kind in regular_work.KINDS else other_shapes.run
    work = run(kind, int(seed))
    messages = tuple(dict(message) for message in work.messages)
    return Session(name=name, max_tokens=max_tokens, system=work.system, messages=messages)


def all_made(most: int, limits: Sequence[int]) -> list[Session]:
    """So many, with these windows in turn: each kind with its first seed, then its second."""
    kinds = (*regular_work.KINDS, *other_shapes.KINDS)
    names = (f"{kind}-{1 + at // len(kinds)}" for at, kind in zip(range(most), cycle(kinds)))
    return [made(name, limit) for name, limit in zip(names, cycle(limits))]


def recorded(folder: Path, most: int, limits: Sequence[int], counter: Counter) -> list[Session]:
    """So many of the folder's that are longer than any window, from each file in turn."""
    files = (_long(path, max(limits), counter) for path in sorted(folder.glob("*.jsonl*")))
    turns = chain.from_iterable(zip_longest(*files))
    found = (each for each in turns if each is not None)
    return [
        Session(name=name, max_tokens=limit, system=system, messages=tuple(messages))
        for (name, system, messages), limit, _ in zip(found, cycle(limits), range(most))
    ]


def _long(
    path: Path, tokens: int, counter: Counter
) -> Iterator[tuple[str, str, list[JsonMessage]]]:
    """Name, prompt and messages of sessions of more tokens, one of each group."""
    groups: set[str] = set()
    for each in load(path).conversations:
        messages = usable(each["messages"])
        group = str(each.get("group", len(groups)))
        if group not in groups and counter.count_messages(messages) > tokens:
            groups.add(group)
            first = each["messages"][0]
            system = text_of(first) if first["role"] == "system" else ""
            yield str(each.get("session_id", f"{path.stem}-{len(groups)}")), system, messages
