"""What every context must be, whatever was pushed and whatever happened to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from anthropic.types import MessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

from tests.fuzz.compactions.agents import SECRET
from turnmill import Context
from turnmill.contract.legality import CallTracker
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations

__all__ = ["Sealed", "invalid", "over"]

Json = Mapping[str, Any]

_SHAPES: Final[Mapping[str, TypeAdapter[Any]]] = {
    "anthropic": TypeAdapter(list[MessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
}
MOST_MARKS: Final = 4
"""Cache marks that Anthropic takes in a request."""


def invalid(context: Context) -> Iterator[str]:
    """Why a provider would refuse it, in its own dialect or in another.

    While calls wait for their results no agent asks its model, so only chat's rules hold then.
    """
    tracker = CallTracker()
    tracker.follow(context.messages_for("chat"))
    for dialect in DIALECTS:
        messages = context.messages_for(dialect)
        if dialect == "chat" or not tracker.open:
            yield from (f"{dialect}: {what}" for what in violations(messages, dialect))
        text = json.dumps(messages)
        if '"native"' in text:
            yield f"{dialect}: has what another dialect says beside"
        if dialect != context.dialect and SECRET in text:
            yield f"{dialect}: has what only another provider may read"
        try:
            if dialect in _SHAPES:
                _SHAPES[dialect].validate_json(text)
        except ValidationError as error:
            yield f"{dialect}: {error.error_count()} errors in its shape"
    marks = json.dumps(context.request_for("anthropic")).count('"cache_control"')
    if marks > MOST_MARKS:
        yield f"anthropic: {marks} cache marks"


def over(context: Context, limit: int) -> Iterator[str]:
    """Whether it says that it has more tokens than it may."""
    if context.tokens > limit:
        yield f"{context.tokens} tokens, the limit is {limit}"


class Sealed:
    """All that was pushed of thoughts, reasoning and compactions, and what was said with it.

    A *run* is what stands in one pushed message, or in Responses right behind each other, of
    blocks or items that nobody may change. It comes back as it was, byte for byte, or not at all.
    """

    def __init__(self) -> None:
        self._runs: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._behind: dict[str, str] = {}
        self.shown = 0

    def add(self, turn: Sequence[Json]) -> None:
        """Note what was pushed."""
        for run in _runs(turn):
            said = tuple(map(json.dumps, run))
            for each in said:
                self._runs[each] = len(self._runs), said
        for item, behind in pairwise(turn):
            if item.get("type") == "reasoning":
                self._behind[item["id"]] = str(behind.get("id"))

    def broken(self, context: Context) -> Iterator[str]:
        """What of it came back otherwise."""
        shown, newest = list(_runs(context.messages)), -1
        self.shown = sum(map(len, shown))
        for run in shown:
            said = tuple(map(json.dumps, run))
            at, pushed = self._runs.get(said[0], (-1, ()))
            if said != pushed:
                yield "a thought is not as it was pushed, or a part of it is missing"
            elif at <= newest:
                yield "thoughts have changed places"
            newest = max(newest, at)
        if json.dumps(context.messages).count(SECRET) != json.dumps(shown).count(SECRET):
            yield "a thought stands where none was pushed"
        if context.dialect == "responses":
            yield from self._apart(context.messages)

    def _apart(self, items: Sequence[Json]) -> Iterator[str]:
        """Items of one output without each other: the API knows by their ids what they had."""
        reasoned = {item["id"] for item in items if item.get("type") == "reasoning"}
        for item, behind in pairwise([*items, {}]):
            if item.get("type") == "reasoning" and behind.get("id") != self._behind[item["id"]]:
                yield "reasoning stands before another item than it led to"
        for before, led_to in self._behind.items():
            if before not in reasoned and any(item.get("id") == led_to for item in items):
                yield "an item has its id, and not the reasoning that led to it"


def _runs(messages: Sequence[Json]) -> Iterator[list[Json]]:
    """The thoughts of each message; items that nobody may change, each alone."""
    for message in messages:
        if SECRET in str(message.get("encrypted_content")):
            yield [message]
        content = message.get("content")
        if isinstance(content, list):
            thoughts = [block for block in content if "thinking" in str(block.get("type"))]
            if thoughts:
                yield thoughts
