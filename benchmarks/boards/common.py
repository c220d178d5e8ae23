"""What boards share: words about the past, tables that name what is lost, contexts."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from turnmill.contract.context import JsonMessage
from turnmill_cli.evaluate import command
from turnmill_cli.evaluate.measuring import DIGITS, Mean, text_of
from turnmill_cli.progress import progress

T = TypeVar("T")

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|[a-z]+")

_PAST: Final = re.compile(
    r"\b(?:until|was|were|had|past|before|earlier|former(?:ly)?|previous(?:ly)?|instead of|"
    r"original(?:ly)?|initial(?:ly)?|no longer|used to|superseded|from\W*\d)",
    re.IGNORECASE,
)
"""Words with which a line says of a value that it is not the current one."""


@functools.lru_cache(maxsize=20_000)
def numbers(text: str) -> frozenset[str]:
    """Numbers without separators of thousands, and number words as digits."""
    found = (DIGITS.get(w, w) for w in _NUMBER.findall(text.lower()))
    return frozenset(w.replace(",", "") for w in found if w[0].isdigit())


def is_past(line: str) -> bool:
    """Whether a line says of something in it that it is not, or no longer, so."""
    return _PAST.search(line) is not None


def cell(mean: Mean) -> str:
    """A mean in two digits."""
    if mean.value is None:
        return "-"
    return "1.0" if mean.value > 0.995 else f"{mean.value:.2f}"[1:]


@dataclass(slots=True)
class Sheet(command.Sheet):
    """A table.

    Attributes:
        lost: what was looked for in vain, in the user's own words; only for a file.
    """

    lost: list[str] = field(default_factory=list)


def each_shown(what: str, items: Sequence[T]) -> Iterator[T]:
    """The items one by one, with such a bar."""
    with progress(what, len(items)) as on_steps:
        for item in items:
            yield item
            on_steps(1)


def write_context(path: Path, messages: Sequence[JsonMessage]) -> None:
    """Write the messages one after the other, each under its role."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = (f"## {message['role']}\n\n{text_of(message)}\n" for message in messages)
    path.write_text("\n".join(parts))
