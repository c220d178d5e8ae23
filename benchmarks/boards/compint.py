"""The board of COMPINT: rules planted in real conversations, and kept word for word or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.boards.common import Sheet, cell, each_shown
from benchmarks.boards.squeezed import SqueezedSession
from benchmarks.survival import BASELINES
from turnmill.contract.context import JsonMessage
from turnmill_cli.conversations import BadInput
from turnmill_cli.evaluate.measuring import DataSet, Mean, MeteredSummarizer, joined

LEAST_TOKENS: Final = 8_000
"""Of a session; short conversations are joined."""

_DEPTHS: Final = {"early": 0.1, "middle": 0.5, "late": 0.9}
_WORDINGS: Final = (
    "",
    "For the rest of this session. ",
    "This is an important constraint: ",
    "This is an important constraint: for the rest of this session. ",
)
"""How COMPINT says a rule: with and without what makes it explicit, and hard."""


def constraints(path: Path) -> list[str]:
    """The rules in COMPINT's ``sssc.py``, which is read but never run.

    Raises:
        BadInput: it is another file.
    """
    try:
        parts = ast.parse(path.read_text()).body
        lists = (p.value for p in parts if isinstance(p, ast.Assign) and _names(p) == ["SSSCS"])
        return [str(each["sssc"]) for each in ast.literal_eval(next(lists))]
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, StopIteration):
        raise BadInput(f"{path}: not COMPINT's sssc.py") from None


def _names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def compint_board(
    data: DataSet, rules: Sequence[str], shares: Sequence[float], metered: MeteredSummarizer
) -> Sheet:
    """The share of the rules that stand word for word in the context, by budget and depth."""
    sessions = joined(data, LEAST_TOKENS, metered.counter.count_messages)
    columns = [f"{share:.0%} {depth}" for share in shares for depth in _DEPTHS]
    kept = {name: {column: Mean() for column in columns} for name in ("rolling", *BASELINES)}
    lost = []
    for at, rule in each_shown(f"rules in {data.name}", list(enumerate(rules))):
        system, messages = sessions[at % len(sessions)]
        told = _WORDINGS[at % len(_WORDINGS)]
        for share, depth in product(shares, _DEPTHS):
            said = told + (rule[0].lower() + rule[1:] if told else rule)
            records = planted(messages, said, _DEPTHS[depth])
            for name, text in _texts(system, records, share, metered):
                found = rule[1:] in " ".join(text.split())
                kept[name][f"{share:.0%} {depth}"].add(found)
                if name == "rolling" and not found:
                    lost.append(f"{data.name} {share:.0%} {depth}: {said}")
    sheet = Sheet(f"{data.name}: rules of COMPINT kept word for word", ["", *columns], lost=lost)
    sheet.rows += [(name, *map(cell, means.values())) for name, means in kept.items()]
    sheet.caption = f"n: {len(rules)} rules, one in a session; sessions: {len(sessions)}"
    return sheet


def planted(messages: Sequence[JsonMessage], said: str, depth: float) -> list[JsonMessage]:
    """The messages with one more of the user's, not between a call and its results."""
    at = int(depth * len(messages))
    while at and (messages[at]["role"] == "tool" or messages[at - 1].get("tool_calls")):
        at -= 1
    return [*messages[:at], {"role": "user", "content": said}, *messages[at:]]


def _texts(
    system: str, messages: Sequence[JsonMessage], share: float, metered: MeteredSummarizer
) -> Iterator[tuple[str, str]]:
    """What each method leaves of the messages at this share of their tokens."""
    session = SqueezedSession(metered, system)
    session.extend(messages)
    tokens = int(share * session.history_tokens)
    session.squeeze(tokens)
    yield "rolling", session.text()
    for name, shorten in BASELINES.items():
        yield name, shorten(list(enumerate(messages, 1)), tokens, metered.counter.count)
