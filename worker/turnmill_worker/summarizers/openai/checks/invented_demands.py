"""Whether the user said the demands that a summary ascribes to the user.

The measure: *support* of a line is the largest share of its terms (word roots, numbers,
identifiers; no words that everybody says, none that only say "the user wants") that one or two
passages together contain, where a passage is up to about 60 terms of one user message, or a line
of the previous summary. A line with less support than ``LEAST_SUPPORT`` was not said by the user.

It is a check of words: it finds what was made up, not a "not" that was lost. Measured on real
sessions with tools (tau, SGD and coding agents; 2,067 sentences of users, 20 a session): thrown
away at 0.5 are none of the users' own sentences, 7 to 9 % of those with 30 % of their words
swapped for other users' and 21 to 23 % with half of them swapped (the prompt asks for the user's
own words); but all invented demands, 80 to 96 % of sentences of tools told as the user's, and
62 to 71 % of what users of other sessions said. What the assistant said passes more often (24 to
60 % are thrown away), for much of it repeats the user. At 0.4 the swapped ones are 5 to 9 % and
13 to 19 %, and the last three rates 2 to 18 points lower. At 0.3, which is for goals, thrown away
are 95 % of invented demands and more, and 3 to 7 % and 6 to 12 % of the swapped ones.

Outside Constraints and Goal, lines tell what happened, with reasons the user did not give, and of
users that said "yes" to what the assistant proposed. So there only the clause with the demand needs
that support, and the whole line less, and messages that the user answered support it, too. Of 49
such lines that real models wrote of their users when they handed them over (tau), none are thrown
away (of whole lines, without answered messages: 22 %); of the same lines about users of other
sessions, who mostly wanted something alike, 51 % (90 %).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from turnmill_worker.reading.asking import told
from turnmill_worker.summarizers.openai.checks.demand_lines import clauses, demanded, demands

__all__ = ["LEAST_GOAL_SUPPORT", "LEAST_SUPPORT", "Said"]

LEAST_SUPPORT: Final = 0.5

LEAST_GOAL_SUPPORT: Final = 0.3
"""Of a line under Goal: there a model says in words of its own what many messages come to."""

LEAST_LINE_SUPPORT: Final = 0.25
"""Of the whole of a line elsewhere, which may tell why, too, and what came of a demand."""

_PASSAGE_TERMS: Final = 60
_SAYS = (
    "user asks asked asking wants wanted said says saying told tells instructs instructed requires "
    "required requests requested insists insisted demands demanded prefers preferred allows "
    "allowed authorized approved confirmed confirms agreed agrees must should needs need us"
)
_SAYING = frozenset(told(_SAYS))


class Said:
    """What the user said, and what an earlier summary says, to look up who said a line.

    Args:
        user: the user's messages.
        answered: messages the user answered: by a "yes", one agrees to what stands there.
        previous: the earlier summary; only what it says that the user demands was ever checked.
    """

    def __init__(
        self, user: Iterable[str], previous: str = "", answered: Iterable[str] = ()
    ) -> None:
        self._passages: list[frozenset[int]] = []
        self._where: defaultdict[int, list[int]] = defaultdict(list)
        self._add(chain(*map(_passages, user), _passages_by_line(demands(previous))))
        self._own = len(self._passages)
        self._add(chain(*map(_passages, answered)))

    def _add(self, passages: Iterable[frozenset[int]]) -> None:
        for passage in passages:
            for term in passage:
                self._where[term].append(len(self._passages))
            self._passages.append(passage)

    def support(self, line: str, *, answered: bool = False) -> float:
        """The line's support, from 0 to 1; 1 for a line without terms.

        ``answered``: by what the user answered, too.
        """
        wanted = frozenset(told(demanded(line))) - _SAYING
        if not wanted:
            return 1.0
        most = len(self._passages) if answered else self._own
        hits: defaultdict[int, int] = defaultdict(int)
        for term in wanted:
            for place in self._where.get(term, ()):
                if place < most:
                    hits[place] += 1
        if not hits:
            return 0.0
        best = max(hits, key=lambda place: (hits[place], place))
        rest = wanted - self._passages[best]
        more = max((len(rest & self._passages[place]) for place in hits), default=0)
        return (hits[best] + more) / len(wanted)

    def unsupported(self, lines: Sequence[str], least: float = LEAST_SUPPORT) -> int:
        """How many of the lines the user did not say."""
        return sum(self.support(line) < least for line in lines)

    def invented(self, lines: Sequence[str]) -> int:
        """How many of these lines tell a demand that the user neither made nor agreed to."""
        return sum(
            min(self.support(clause, answered=True) for clause in clauses(line)) < LEAST_SUPPORT
            or self.support(line, answered=True) < LEAST_LINE_SUPPORT
            for line in lines
        )


def _passages(text: str) -> Iterable[frozenset[int]]:
    """A message's terms in passages; cut at line ends, and within a line when it is long."""
    passage: set[int] = set()
    for line in text.split("\n"):
        terms = told(line)
        if passage and len(passage) + len(terms) > _PASSAGE_TERMS:
            yield frozenset(passage)
            passage = set()
        for start in range(0, len(terms), _PASSAGE_TERMS):
            passage |= set(terms[start : start + _PASSAGE_TERMS])
            if len(passage) >= _PASSAGE_TERMS:
                yield frozenset(passage)
                passage = set()
    if passage:
        yield frozenset(passage)


def _passages_by_line(lines: Iterable[str]) -> Iterable[frozenset[int]]:
    for line in lines:
        terms = frozenset(told(line))
        if terms:
            yield terms
