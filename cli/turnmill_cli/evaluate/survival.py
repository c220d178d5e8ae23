"""Conversations scored: the metrics over a data set, for one method and one budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from turnmill_cli.conversations import BadInput, json_lines
from turnmill_cli.evaluate.entities import VALUES, Find
from turnmill_cli.evaluate.methods import Count, Method, portions
from turnmill_cli.evaluate.metrics import (
    Mean,
    chat_means,
    halves,
    needed_in,
    score_question,
    score_tools,
    tools_means,
)
from turnmill_cli.evaluate.word_matching import Record, kept_by_seq, rendered, text_of

__all__ = ["DataSet", "OverBudget", "load", "survival"]

Compacted = Callable[[Sequence[Record]], str]


class OverBudget(AssertionError):
    """A method's text has more tokens than it was allowed."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """The conversations of one file.

    Attributes:
        has_questions: some carry questions with evidence: then these are what is measured.
        find: names the values that are needed later; None: they are the tail's call arguments.
    """

    name: str
    conversations: tuple[Mapping[str, Any], ...]
    find: Find | None

    @property
    def has_questions(self) -> bool:
        """Whether questions can be scored; else what the tail still uses is."""
        return any(conversation.get("qa") for conversation in self.conversations)


def load(path: Path, *, values: str = "", limit: int | None = None) -> DataSet:
    """The data set in a JSONL file, or `.gz` of it.

    Raises:
        BadInput: names the file and the line, never the content.
    """
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    lines = islice(json_lines(path), limit)
    found = tuple(_conversation(text, f"{path}:{number}") for number, text in lines)
    if not found:
        raise BadInput(f"{path}: no conversations in it")
    return DataSet(name, found, VALUES[values or (name if name in VALUES else "calls")])


def _conversation(text: str, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise BadInput(f"{where}: not JSON") from None
    messages = value.get("messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list):
        raise BadInput(f"{where}: not an object with a list of `messages`")
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadInput(f"{where}: messages[{at}]: not an object with a `role`")
    for at, question in enumerate(value.get("qa") or ()):
        evidence = question.get("evidence") if isinstance(question, Mapping) else None
        if not isinstance(evidence, list) or "answer" not in question:
            raise BadInput(f"{where}: qa[{at}]: needs an `answer` and a list of `evidence`")
        if not all(isinstance(i, int) and 0 <= i < len(messages) for i in evidence):
            raise BadInput(f"{where}: qa[{at}]: evidence beyond the {len(messages)} messages")
    return dict(value)


def survival(
    data: DataSet, method: Method, share: float, count: Count, *, rounds: int = 1
) -> dict[str, Mean]:
    """The metrics that fit the data: of questions where there are any, else of values used later.

    Raises:
        OverBudget: the method broke the one rule.
    """

    def compacted(records: Sequence[Record]) -> str:
        budget = int(share * count(rendered(records)))
        summary = method(portions(records, rounds, count), budget)
        if (tokens := count(summary)) > budget:
            raise OverBudget(f"{tokens} tokens exceed the budget of {budget}")
        return summary

    return _chat(data, compacted) if data.has_questions else _tools(data, compacted)


def _chat(data: DataSet, compacted: Compacted) -> dict[str, Mean]:
    means = chat_means()
    for conversation in data.conversations:
        records: list[Record] = list(enumerate(conversation["messages"]))
        summary = compacted(records)
        texts = [text_of(message) for _, message in records]
        kept = kept_by_seq(summary)
        for question in conversation.get("qa") or ():
            score_question(question, texts, kept, means, summary=summary)
    return means


def _tools(data: DataSet, compacted: Compacted) -> dict[str, Mean]:
    means = tools_means()
    for conversation in data.conversations:
        wanted = needed_in(conversation["messages"], data.find)
        if wanted:
            head, _ = halves(conversation["messages"])
            score_tools(wanted, head, compacted(head), data.find, means)
    return means
