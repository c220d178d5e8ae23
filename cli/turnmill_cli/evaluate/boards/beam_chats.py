"""The chats of BEAM, with what is asked about them, read from a checkout of its repository."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turnmill.contract.context import JsonMessage
from turnmill_cli.conversations import BadInput

__all__ = ["BeamChat", "Question", "beam_chats"]

ASKED: Final = ("information_extraction", "multi_session_reasoning")
"""Kinds of questions about facts that were said once or here and there."""

UPDATED: Final = "knowledge_update"
_RULES: Final = ("instruction_being_tested", "preference_being_tested")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a fact.

    Attributes:
        evidence: the seqs of the turns that say what the answer needs; of an update, those that
            say the newest value.
        earlier: the seqs of the turns that say the value before, when there was one.
        confusion: what a wrong answer would say, when there was a value before.
    """

    text: str
    answer: str
    evidence: tuple[int, ...]
    earlier: tuple[int, ...] = ()
    confusion: str = ""

    @property
    def is_update(self) -> bool:
        """Whether the answer replaced an earlier value."""
        return bool(self.earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamChat:
    """One chat.

    Attributes:
        messages: by seq - 1.
        rules: what the user laid down and what a question of BEAM tests.
    """

    name: str
    messages: Sequence[JsonMessage]
    rules: tuple[str, ...]
    questions: tuple[Question, ...]

    def said(self, seq: int) -> str:
        """What the turn says."""
        return str(self.messages[seq - 1]["content"])


def beam_chats(folder: Path, limit: int | None = None) -> list[BeamChat]:
    """The chats in or below a folder, in the order of their numbers.

    Raises:
        BadInput: there is none, or one is not as BEAM has them.
    """
    found = sorted(
        {path.parent for path in folder.rglob("chat.json")}, key=lambda at: (len(at.name), at.name)
    )
    if not found:
        raise BadInput(f"{folder}: no chat.json in it")
    return [_chat(path) for path in found[:limit]]


def _chat(folder: Path) -> BeamChat:
    try:
        batches = json.loads((folder / "chat.json").read_text())
        asked = json.loads((folder / "probing_questions" / "probing_questions.json").read_text())
        turns = [turn for batch in batches for group in batch["turns"] for turn in group]
        seqs = {int(turn["id"]): seq for seq, turn in enumerate(turns, 1)}
        return BeamChat(
            name=folder.name,
            messages=[{"role": turn["role"], "content": turn["content"]} for turn in turns],
            rules=tuple(dict.fromkeys(_rules(asked))),
            questions=tuple(_questions(asked, seqs)),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{folder}: not a chat of BEAM ({type(error).__name__})") from None


def _rules(asked: Mapping[str, Sequence[Mapping[str, str]]]) -> Iterator[str]:
    for question in (each for kind in asked.values() for each in kind):
        yield from (question[name] for name in _RULES if name in question)


def _questions(
    asked: Mapping[str, Sequence[Mapping[str, Any]]], seqs: Mapping[int, int]
) -> Iterator[Question]:
    for question in (each for kind in ASKED for each in asked.get(kind, ())):
        evidence = _seqs(question["source_chat_ids"], seqs)
        yield Question(text=question["question"], answer=question["answer"], evidence=evidence)
    for question in asked.get(UPDATED, ()):
        ids = question["source_chat_ids"]
        yield Question(
            text=question["question"],
            answer=question["answer"],
            evidence=_seqs(ids["updated_info"], seqs),
            earlier=_seqs(ids["original_info"], seqs),
            confusion=question.get("potential_confusion", ""),
        )


def _seqs(ids: Sequence[int], seqs: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(sorted({seqs[each] for each in ids if each in seqs}))
