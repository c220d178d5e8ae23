"""Whether a text states a rule, an answer or a value that was replaced: by words and digits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from turnmill_cli.evaluate.boards.beam_chats import BeamChat, Question
from turnmill_cli.evaluate.word_matching import numbers, stems

__all__ = ["Lines", "answers", "is_past", "superseded"]

_RULE_SHARE: Final = 0.8
_SUBJECT_SHARE: Final = 0.4
_LEAST_SUBJECT: Final = 2
_PAST: Final = re.compile(
    r"\b(?:until|was|were|had|past|before|earlier|former(?:ly)?|previous(?:ly)?|instead of|"
    r"original(?:ly)?|initial(?:ly)?|no longer|used to|superseded|from\W*\d)",
    re.IGNORECASE,
)
"""Words with which a line says of a value that it is not the current one."""


def is_past(line: str) -> bool:
    """Whether a line says of something in it that it is not, or no longer, so."""
    return _PAST.search(line) is not None


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
