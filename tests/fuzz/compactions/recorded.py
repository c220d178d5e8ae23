"""Recorded conversations, in each dialect as its agents would push them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from turnmill import Policy
from turnmill.contract.legality import repair
from turnmill.dialects.convert import from_chat
from turnmill.dialects.native import RESPONSES_RESULTS
from turnmill_cli.conversations import load

__all__ = ["recorded", "said_in"]

Json = dict[str, Any]
Play = Callable[[Iterable[Sequence[Json]], Policy, str, str], None]


def recorded(folder: Path, dialects: Iterable[str], play: Play, policy: Policy) -> Iterator[str]:
    """Play each of the folder's conversations in each dialect; names each file when it is done."""
    for dialect in dialects:
        spoken = policy.model_copy(update={"dialect": dialect})
        for path in sorted(folder.glob("*.jsonl.gz")):
            for each in load([path]):
                turns = said_in(dialect, each.messages)
                play(turns, spoken, each.system_prompt, f"{dialect}, {each.name}")
            yield f"{dialect}, {path.name}"


def said_in(dialect: str, messages: Sequence[Json]) -> list[list[Json]]:
    """The messages as turns of the dialect: one each, or what a model or tools say in a row."""
    found = from_chat(repair(messages), dialect).messages
    if dialect != "responses":
        return [[message] for message in found]
    turns: list[list[Json]] = []
    for who, row in groupby(found, key=_who):
        items = list(row)
        turns += [[item] for item in items] if who == "user" else [items]
    return turns


def _who(item: Json) -> str:
    kind = item.get("type", "message")
    if kind in RESPONSES_RESULTS:
        return "tool"
    return "model" if item.get("role", "assistant") == "assistant" else "user"
