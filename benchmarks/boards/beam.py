"""The board of BEAM's chats: what the context and ten recalled memories still say at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.boards.common import Sheet, cell, each_shown, is_past, numbers, write_context
from benchmarks.survival import BASELINES
from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill_cli.conversations import BadInput
from turnmill_cli.evaluate.measuring import InMemorySession, Mean, MeteredSummarizer, stems, text_of
from turnmill_worker.archive.memories import of_turns
from turnmill_worker.ports.values import ArchivedTurn, Memory, SessionRef
from turnmill_worker.requests.grounding import MemoryIndex

# --- chats ----------------------------------------------------------------------------------------

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


# --- what a text states ---------------------------------------------------------------------------

_RULE_SHARE: Final = 0.8
_SUBJECT_SHARE: Final = 0.4
_LEAST_SUBJECT: Final = 2


class Lines:
    """Texts cut into lines, of which each is looked at by itself."""

    def __init__(self, texts: Iterable[str]) -> None:
        lines = dict.fromkeys(line for text in texts for line in text.split("\n") if line.strip())
        self._lines = [(line, stems(line), numbers(line)) for line in lines]

    def has_rule(self, rule: str) -> bool:
        """Whether one line has four fifths of the rule's content words."""
        wanted = stems(rule)
        least = _RULE_SHARE * len(wanted)
        return any(len(wanted & words) >= least for _, words, _ in self._lines)

    def state(self, wanted: frozenset[str]) -> bool:
        """Whether one line has all of these digits or words."""
        return any(wanted <= words | digits for _, words, digits in self._lines)

    def state_superseded(self, question: Question, old: frozenset[str]) -> bool:
        """Whether a line says of what is asked an old value as if it still held.

        Such a line has one of its numbers and enough words of the question, but neither the newest
        value nor a word that says that it is past.
        """
        newest, subject = numbers(question.answer), stems(question.text)
        least = max(_LEAST_SUBJECT, _SUBJECT_SHARE * len(subject))
        return any(
            old & digits
            and not newest & digits
            and len(subject & words) >= least
            and not is_past(line)
            for line, words, digits in self._lines
        )


def answers(chat: BeamChat, question: Question) -> list[frozenset[str]]:
    """For each turn of evidence, the digits of the answer that it states; or the words, if none."""
    said = [chat.said(seq) for seq in question.evidence]
    digits = [numbers(question.answer) & numbers(text) for text in said]
    words = [stems(question.answer) & stems(text) for text in said]
    return [found for found in (digits if any(digits) else words) if found]


def superseded(chat: BeamChat, question: Question) -> frozenset[str]:
    """The value before the newest: numbers of a wrong answer that only the earlier turns say."""
    said = frozenset[str]().union(*(numbers(chat.said(seq)) for seq in question.earlier))
    return (numbers(question.confusion) & said) - numbers(question.answer)


# --- memories -------------------------------------------------------------------------------------

Recall = Callable[[str, int], list[Memory]]
"""The best memories for a question, at most so many."""


def recall_of(messages: Sequence[JsonMessage]) -> Recall:
    """Searches the memories of these turns, the first of which has the seq 1."""
    turns = (
        ArchivedTurn(
            seq=Seq(seq),
            messages=encode_json([message]),
            turn_id=str(seq),
            fields=b"",
            at_ms=0,
            tokens=None,
        )
        for seq, message in enumerate(messages, 1)
    )
    ref = SessionRef(Namespace("evaluate"), SessionId("evaluated"))
    index = MemoryIndex(made.memory for made in of_turns(ref, "0", turns, first=1))
    return lambda question, most: [found.memory for found in index.search(question, most)]


# --- the board ------------------------------------------------------------------------------------

BURST: Final = 10
"""Messages pushed before workers look again."""

RECALLED: Final = 10

_COLUMNS: Final = ("rules", "facts", "or recalled", "newest", "superseded", "R@5", "R@10")
_CEILING: Final = "whole turns"


@dataclass(slots=True)
class Row:
    """The measures of one way to shorten chats."""

    means: dict[str, Mean] = field(default_factory=lambda: {name: Mean() for name in _COLUMNS})
    lost: list[str] = field(default_factory=list)

    def add(self, column: str, chat: BeamChat, what: str, *, kept: bool) -> None:
        """Counts one; what is lost is named."""
        self.means[column].add(kept)
        if not kept:
            self.lost.append(f"{chat.name} {column}: {what}")


def beam_board(
    chats: Sequence[BeamChat],
    policy: Policy,
    metered: MeteredSummarizer,
    contexts: Path | None = None,
) -> Sheet:
    """Rules, facts and newest values in the final contexts, beside baselines of the same length."""
    rows = {name: Row() for name in ("rolling", *BASELINES, _CEILING)}
    compactions = tokens = 0
    for chat in each_shown("chats of BEAM", chats):
        session = _pushed(chat, policy, metered)
        read = session.read()
        if contexts is not None:
            write_context(contexts / f"beam-{chat.name}.md", read)
        lines = Lines(map(text_of, read))
        _score(chat, lines, rows["rolling"])
        _recall(chat, lines, session.watermark, rows["rolling"])
        room = metered.counter.count_messages(read)
        records = list(enumerate(chat.messages, 1))
        for name, shorten in BASELINES.items():
            text = shorten(records, room, metered.counter.count)
            _score(chat, Lines([text]), rows[name])
        whole = [text_of(message).replace("\n", " ") for message in chat.messages]
        _score(chat, Lines(whole), rows[_CEILING])
        compactions += session.compactions
        tokens += session.history_tokens
    sheet = Sheet(
        f"BEAM, {len(chats)} chats at {policy.max_tokens:,} tokens: what the last context states",
        ["", *_COLUMNS],
        caption=f"{tokens:,} tokens, {compactions} compactions; n: "
        + ", ".join(f"{name} {mean.n}" for name, mean in rows["rolling"].means.items()),
        lost=rows["rolling"].lost,
    )
    sheet.rows += [(name, *map(cell, row.means.values())) for name, row in rows.items()]
    return sheet


def _pushed(chat: BeamChat, policy: Policy, metered: MeteredSummarizer) -> InMemorySession:
    session = InMemorySession(policy, "", metered)
    for at, message in enumerate(chat.messages, 1):
        session.add(message)
        if at % BURST == 0 or at == len(chat.messages):
            session.settle()
    return session


def _score(chat: BeamChat, lines: Lines, row: Row) -> None:
    for rule in chat.rules:
        row.add("rules", chat, rule, kept=lines.has_rule(rule))
    for question in chat.questions:
        wanted = answers(chat, question)
        if wanted:
            column = "newest" if question.is_update else "facts"
            row.add(column, chat, question.text, kept=all(map(lines.state, wanted)))
        if old := superseded(chat, question):
            stale = lines.state_superseded(question, old)
            row.means["superseded"].add(stale)
            if stale:
                row.lost.append(f"{chat.name} superseded: {question.text}")


def _recall(chat: BeamChat, lines: Lines, watermark: int, row: Row) -> None:
    """Adds what is found: evidence among all turns, and answers among those not in the context."""
    everything, covered = recall_of(chat.messages), recall_of(chat.messages[:watermark])
    for question in chat.questions:
        found = [memory.seq for memory in everything(question.text, RECALLED)]
        for seq in question.evidence + question.earlier:
            row.means["R@5"].add(seq in found[:5])
            row.means["R@10"].add(seq in found)
        if wanted := answers(chat, question):
            recalled = Lines(m.text.replace("\n", " ") for m in covered(question.text, RECALLED))
            kept = all(lines.state(each) or recalled.state(each) for each in wanted)
            row.add("or recalled", chat, question.text, kept=kept)
