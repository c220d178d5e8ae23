"""Planted facts: 64 of each kind among real turns, at known depths, compacted again and again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from benchmarks.boards.common import Sheet, cell, each_shown, is_past
from benchmarks.boards.squeezed import Played
from benchmarks.survival import METHODS, Count, Method, method, portions, rendered
from turnmill_cli.evaluate.measuring import (
    DataSet,
    Mean,
    MeteredSummarizer,
    Record,
    stands_in,
    stems,
    text_of,
)

PLANTED: Final = 64
"""Facts of each kind."""

ROUNDS: Final = 10
"""Compactions the oldest fact goes through."""

HOST_TOKENS: Final = 20_000
"""Of real turns around the planted ones, where there are as many."""

_NEAR_CHARS: Final = 120

_QUALITIES: Final = (
    *("northern", "southern", "coastal", "alpine"),
    *("urban", "rural", "central", "remote"),
)
_PLACES: Final = (
    *("depot", "bakery", "harbour", "library"),
    *("clinic", "foundry", "orchard", "observatory"),
)

# Each says of a topic, which no two facts share, what the value is; `{v}` is what must survive.
_SAYINGS: Final[Mapping[str, tuple[str, Callable[[str, int], str]]]] = {
    "id": ("The ticket for the {t} is {v}.", lambda h, _: f"TKT-{h[:6].upper()}"),
    "email": ("Write to {v} about the {t}.", lambda h, _: f"desk.{h[:5]}@example.org"),
    "path": ("The settings of the {t} are in {v} now.", lambda h, _: f"/srv/conf/{h[:6]}.yaml"),
    "url": ("Plans of the {t}: {v}", lambda h, _: f"https://example.org/plans/{h[:7]}"),
    "command": ("For the {t} we ran: {v}", lambda h, _: f"kubectl rollout undo deploy/{h[:7]}"),
    "number": ("The {t} measured {v} at peak load.", lambda _, n: f"{1009 + 37 * n} ms"),
    "money": ("Repairs of the {t} came to {v}.", lambda _, n: f"${513 + 41 * n}.{10 + n}"),
    "date": ("The {t} reopens on {v}.", lambda _, n: f"2031-{n % 12 + 1:02}-{n % 27 + 1:02}"),
    "error": ("The {t} job ended with {v}", lambda h, _: f"LinkError: code {h[:6]}"),
    "name": ('The {t} project is called "{v}".', lambda h, _: f"Zephyr {h[:4].title()}x"),
    "rule": ("Never mention {v} in the {t}.", lambda h, _: f"Model {h[:5].title()}x"),
    "update": ("The limit of the {t} is {v} now.", lambda _, n: f"{5003 + 43 * n} kg"),
}
KINDS: Final = tuple(_SAYINGS)

_BEFORE: Final[tuple[str, Callable[[int], str]]] = (
    "The limit of the {t} is {v}.",
    lambda n: f"{2017 + 41 * n} kg",
)
"""What an update replaces."""

_LAG: Final = 16
"""So many facts later an old value is replaced."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One fact, and what it was said of.

    Attributes:
        seq: of the message that says it.
        old: the value it replaced, or ``""``.
    """

    value: str
    topic: str
    seq: int
    old: str = ""


@dataclass(slots=True)
class Probes:
    """What survived, of each kind and by the compactions it went through.

    Attributes:
        present, associated: by kind; associated with a word of its topic on the same line.
        by_compactions: associated, by how many compactions the fact went through.
    """

    present: dict[str, Mean] = field(default_factory=dict)
    associated: dict[str, Mean] = field(default_factory=dict)
    by_compactions: dict[int, Mean] = field(default_factory=dict)


def real_turns(data: DataSet, count: Count) -> list[Record]:
    """Real turns to plant in: conversations one after the other, up to ``HOST_TOKENS``."""
    found: list[Record] = []
    tokens = 0
    messages = chain.from_iterable(c["messages"] for c in data.conversations)
    for message in (m for m in messages if m["role"] != "system"):
        found.append((len(found), message))
        tokens += count(text_of(message)) + 4
        if tokens >= HOST_TOKENS:
            break
    return found


def plant(kind: str, records: Sequence[Record], count: Count) -> tuple[list[Record], list[Planted]]:
    """The records with ``PLANTED`` facts of a kind, evenly spread over their tokens."""
    lag = _LAG if kind == "update" else 0
    step = sum(count(text_of(message)) + 4 for _, message in records) / (PLANTED + lag)
    messages: list[Mapping[str, Any]] = []
    facts: list[Planted] = []
    passed = 0.0
    slots = iter(range(PLANTED + lag))
    slot = next(slots, None)

    def say(most: float) -> None:
        nonlocal slot
        while slot is not None and (slot + 0.5) * step <= most:
            if lag and slot < PLANTED:
                saying, value = _BEFORE
                content = saying.format(t=_topic(slot), v=value(slot))
                messages.append({"role": "user", "content": content})
            if slot >= lag:
                content, fact = _fact(kind, slot - lag, len(messages) + 1)
                # Only a user lays down rules.
                role = "user" if slot % 2 or kind == "rule" else "assistant"
                messages.append({"role": role, "content": content})
                facts.append(fact)
            slot = next(slots, None)

    for _, message in records:
        # Not between a call and its result: no provider would take that.
        if not messages or not (message["role"] == "tool" or messages[-1].get("tool_calls")):
            say(passed)
        messages.append(message)
        passed += count(text_of(message)) + 4
    say(math.inf)
    return list(enumerate(messages, 1)), facts


def _topic(n: int) -> str:
    return f"{_QUALITIES[n % 8]} {_PLACES[n // 8 % 8]}"


def _fact(kind: str, n: int, seq: int) -> tuple[str, Planted]:
    """The n-th fact of a kind, with the words that say it."""
    saying, value = _SAYINGS[kind]
    stated = value(hashlib.sha256(f"{kind} {n}".encode()).hexdigest(), n)
    old = _BEFORE[1](n) if kind == "update" else ""
    return saying.format(t=_topic(n), v=stated), Planted(stated, _topic(n), seq, old)


def probe(
    records: Sequence[Record],
    method: Method,
    share: float,
    count: Count,
    *,
    kinds: Sequence[str] = KINDS,
    rounds: int = ROUNDS,
) -> Probes:
    """What one method keeps of the facts of each kind, planted in these records."""
    found = Probes()
    for kind in kinds:
        said, facts = plant(kind, records, count)
        parts = portions(said, rounds, count)
        summary = method(parts, int(share * count(rendered(said))))
        lines = summary.lower().split("\n")
        present, associated = Mean(), Mean()
        for fact in facts:
            holding = [at for at, line in enumerate(lines) if stands_in(line, fact.value.lower())]
            near = any(_is_near(lines[at], fact.value, fact) for at in holding)
            near = near and not _is_undone(lines[holding[-1] + 1 :], fact)
            present.add(bool(holding))
            associated.add(near)
            gone = sum(part[-1][0] < fact.seq for part in parts)
            found.by_compactions.setdefault(len(parts) - gone, Mean()).add(near)
        found.present[kind], found.associated[kind] = present, associated
    found.by_compactions = dict(sorted(found.by_compactions.items()))
    return found


def _is_undone(after: Sequence[str], fact: Planted) -> bool:
    """Whether a line after the newest value states the old one as if it still held."""
    return bool(fact.old) and any(
        stands_in(line, fact.old) and _is_near(line, fact.old, fact) and not is_past(line)
        for line in after
    )


def _is_near(line: str, value: str, fact: Planted) -> bool:
    at = line.find(value.lower())
    near = line[max(0, at - _NEAR_CHARS) : at + len(value) + _NEAR_CHARS]
    return stems(fact.topic) <= stems(near)


def facts_board(data: DataSet, share: float, metered: MeteredSummarizer) -> list[Sheet]:
    """Facts kept with what they are about: of each kind, and by compactions gone through."""
    records = real_turns(data, metered.counter.count)
    found: dict[str, Probes] = {}
    for name in each_shown(f"facts in {data.name}", METHODS):
        # Rules stand outside of any text, so a text alone would not show them.
        shorten = Played(metered) if name == "rolling" else method(name, metered)
        found[name] = probe(records, shorten, share, metered.counter.count)
    kinds = Sheet(
        f"{data.name}: planted facts kept with what they are about, at {share:.0%}",
        ["kind", *found],
    )
    kinds.rows += [
        (kind, *(cell(probes.associated[kind]) for probes in found.values())) for kind in KINDS
    ]
    rounds = sorted({n for probes in found.values() for n in probes.by_compactions})
    title = f"{data.name}: the same by how many compactions they went through"
    by = Sheet(title, ["strategy", *map(str, rounds)])
    for name, probes in found.items():
        by.rows.append((name, *(cell(probes.by_compactions.get(n, Mean())) for n in rounds)))
    by.caption = "only rolling compacts its own text again"
    return [kinds, by]
