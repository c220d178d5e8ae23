"""Whether a context can be trusted at all: what caps a score however much survives.

A rule in force that it lost, a value that it states though a newer one replaced it, and text that
nobody could read are not made up for by anything else.
"""

from __future__ import annotations

import math
import re
import string
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from operator import gt
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import DATA
from turnmill.contract.policy import Policy
from turnmill.contract.render import rule_line
from turnmill.contract.rules import Rule
from turnmill.rules.wording.english import STOP
from turnmill_worker.old_reading.earlier_summary import add_previous
from turnmill_worker.old_reading.units import Units
from turnmill_worker.old_reading.updates import Told

__all__ = ["DEFAULT_THRESHOLD", "Trust"]

DEFAULT_THRESHOLD: Final[float] = Policy.model_fields["quality_threshold"].default

_NAMES: Final = ("rules", "current", "readable")
_READABLE: Final = 0.5
"""Less of a summary than this that can be read is not enough."""

_CAP: Final = 0.5
"""What a score is at most, in thresholds: no other text that comes near makes it pass."""

# What `contract.render` opens and closes a summary with; facts and receipts are not its words.
_PROSE = re.compile(
    r"^(?:\[Summary of the conversation so far[^\]\n]{0,80}\]"
    r"|\[Iterations? [\d-]+, turns [^\]\n]{0,40}\]|Context summary \(managed\):)"
)
_END: Final = "\n[End]"
_PLACEHOLDER = re.compile(r"(?:\[[\w.-]{1,32}\]\s*)+")
_KNOWN_PARTS = re.compile(r"\[(?:image|audio|file|video)\]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_NO_MARKS: Final = str.maketrans(dict.fromkeys(string.punctuation + "“”’…"))
_LEAST_WORD: Final = 2
_FEW_WORDS: Final = 0.2
"""A sentence of which fewer tokens are words is a list of names and numbers."""

_LEAST_PAIRS: Final = 16
_FOLLOWS: Final = 0.06
"""By this share, more neighbours stand in a text as they do in what it was made from than the other
way round: in shuffled words either is as rare. Even free paraphrases reach .07, most of them .3."""

_REACH: Final = 6
_LEAST_SEEN: Final = 20
_CHANCE: Final = 2.0
"""Of words beside each other, or at most so far apart, those that the source has in one order only
stand in it more often than chance explains: by more than so many standard deviations. Fewer words
than the least tell nothing."""


class Trust:
    """What a head must not lose, state or be; read once for all heads."""

    def __init__(
        self,
        covered: Units,
        *,
        rules: Sequence[Rule] = (),
        older: Units | None = None,
        told: Told | None = None,
        threshold: float = DEFAULT_THRESHOLD,
    ) -> None:
        """Of what the head stands for.

        Args:
            covered: what the turns covered now say.
            rules: those in force that the head has to state.
            older: what is left of the turns before, which those may contradict.
            told: both, if they have been read.
            threshold: the lowest score that passes.
        """
        self._rules = [rule_line(rule) for rule in rules]
        self._older = older or Units([], [])
        self._covered = covered
        self._told = told or Told(self._older, covered)
        self._threshold = threshold

    def capped(self, score: float, parts: Mapping[str, float]) -> float:
        """The score; if the context cannot be trusted, at most half of what it takes to pass."""
        whole = parts["rules"] >= 1.0 and parts["current"] >= 1.0
        if whole and parts["readable"] >= _READABLE:
            return score
        share = sum(parts[name] for name in _NAMES) / len(_NAMES)
        return score * _CAP * self._threshold * share

    def prepare(self) -> None:
        """Read all but the heads; ``parts`` does it if nobody has."""
        _ = self._told.replaced, self._source

    @cached_property
    def _source(self) -> list[str]:
        """The words of what the head stands for, in order."""
        texts = [unit.text for part in (self._older, self._covered) for unit in part.units]
        return list(chain.from_iterable(map(_tokens, texts)))

    def parts(self, head: Sequence[JsonMessage]) -> dict[str, float]:
        """The share of rules that stand, of old values that are marked, and of text to be read."""
        shown = "\n".join(_texts(head))
        lost = sum(rule not in shown for rule in self._rules)
        prose = Units([], [])
        for text in _prose(head):
            add_previous(prose, text)
        known, current = self._told.replaced.stated_in(prose)
        return {
            "rules": 1.0 - lost / len(self._rules) if lost else 1.0,
            "current": 1.0 - current / known if current else 1.0,
            "readable": self._readable(prose) * _read_by_us(self._covered),
        }

    def _readable(self, prose: Units) -> float:
        """The share of a text that says something; 0 where its words follow no order."""
        whole = sum(len(unit.text) for unit in prose.units)
        if not whole:
            return 1.0
        said = sum(len(unit.text) for unit in prose.units if unit.body_at or _speaks(unit.text))
        sentences = [unit.text for unit in prose.units if not unit.body_at]
        return said / whole if self._in_order(sentences) else 0.0

    def _in_order(self, texts: Sequence[str]) -> bool:
        """Whether words follow each other as they do in what the text was made from."""
        pairs, ahead, back = self._followed(texts, 1)
        if pairs >= _LEAST_PAIRS and ahead - back < _FOLLOWS * pairs:
            return False
        if _by_more_than_chance(ahead, back):
            return True
        _, ahead, back = self._followed(texts, _REACH)
        return ahead + back < _LEAST_SEEN or _by_more_than_chance(ahead, back)

    def _followed(self, texts: Sequence[str], reach: int) -> tuple[int, int, int]:
        """Pairs of words, and those that the source has in this order only, or in the other."""
        source = self._source
        pairs = list(_pairs(texts, reach, frozenset(source)))
        wanted = {*pairs, *((other, one) for one, other in pairs)}
        follow: set[tuple[str, str]] = set()
        for step in range(1, reach + 1):
            follow |= wanted.intersection(zip(source, source[step:], strict=False))
        ahead = [(one, other) in follow for one, other in pairs]
        back = [(other, one) in follow for one, other in pairs]
        return len(pairs), sum(map(gt, ahead, back)), sum(map(gt, back, ahead))


def _by_more_than_chance(ahead: int, back: int) -> bool:
    return ahead - back > _CHANCE * math.sqrt(ahead + back)


def _pairs(texts: Iterable[str], reach: int, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Words near each other that say something, if the source has them both."""
    for text in texts:
        tokens = _tokens(text)
        for step in range(1, reach + 1):
            for one, other in zip(tokens, tokens[step:], strict=False):
                if (
                    one in known
                    and other in known
                    and one != other
                    and not (one in STOP and other in STOP)
                ):
                    yield one, other


@lru_cache(maxsize=1 << 15)
def _tokens(text: str) -> tuple[str, ...]:
    """What stands between spaces, without marks; within a token, order says nothing."""
    return tuple(map(sys.intern, text.lower().translate(_NO_MARKS).split()))


@lru_cache(maxsize=1 << 14)
def _speaks(text: str) -> bool:
    """Whether a sentence has words, beside names, numbers and marks for what nobody can see."""
    if _PLACEHOLDER.fullmatch(text):
        return _KNOWN_PARTS.search(text) is not None
    tokens = text.split()
    return sum(map(_is_word, tokens)) >= _FEW_WORDS * len(tokens)


def _is_word(token: str) -> bool:
    if any(map(str.isdigit, token)):
        return False
    return any(len(word) >= _LEAST_WORD and not word[0].isupper() for word in _WORD.findall(token))


def _read_by_us(covered: Units) -> float:
    """The share of messages that are more than marks for parts that are not understood."""
    unread: dict[int, bool] = {}
    for unit in covered.units:
        mark = _PLACEHOLDER.fullmatch(unit.text) and not _KNOWN_PARTS.search(unit.text)
        unread[unit.line] = unread.get(unit.line, True) and bool(mark)
    return 1.0 - sum(unread.values()) / len(unread) if unread else 1.0


def _prose(head: Iterable[JsonMessage]) -> Iterator[str]:
    """What a summarizer wrote, without its frame."""
    for text in _texts(head):
        opening = _PROSE.match(text)
        if opening:
            yield text[opening.end() :].partition(_END)[0].replace(DATA, "", 1)


def _texts(messages: Iterable[JsonMessage]) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
