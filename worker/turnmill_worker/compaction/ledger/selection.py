"""The ledger: facts kept word for word beside the summary, carried on without being re-summarized.

A fact is a value with the words it stood next to; a bare identifier is of no use. Pure,
deterministic and linear: the same facts and records give the same ledger in any process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final

from turnmill.contract.marks import quoted_lines
from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.ledger.fact_merging import Fact, merged, placed
from turnmill_worker.compaction.ledger.stated_values import Kind
from turnmill_worker.compaction.pool.costs import longest_beginning
from turnmill_worker.compaction.quality.fact_coverage import (
    NEWEST,
    OLDEST,
    ONLY_IN_RESULTS,
    REPEATED,
    SAID_BY_USER,
    USED_IN_CALL,
)
from turnmill_worker.old_reading.units import Source
from turnmill_worker.old_reading.updates import Told

__all__ = ["SYSTEM", "Fact", "Unstated", "beside", "current", "ledger", "ledger_text"]


def ledger(
    previous: Sequence[Fact], told: Told, budget_tokens: int, count: CountText
) -> tuple[Fact, ...]:
    """The facts of ``previous`` and what is newly told most likely to be used, in order.

    Their ``ledger_text`` has at most ``budget_tokens``. While all fit, none is ever dropped; with
    nothing new, ``previous`` comes back as it was.
    """
    return Unstated("", merged(previous, told), count).within(budget_tokens)


def beside(
    prose: str, facts: Sequence[Fact], budget_tokens: int, count: CountText
) -> tuple[Fact, ...]:
    """The facts worth showing beside a prose: those it does not state, as many as fit.

    What is not shown stays in the ledger: the next prose may drop what this one states. A fact
    shown beside no prose at all is shown beside any prose of the same facts that omits it.
    """
    return Unstated(prose, current(facts), count).within(budget_tokens)


def current(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """The facts to show: a value that holds no longer is only kept to know it by."""
    return tuple(fact for fact in facts if not fact.until and not _is_plain_word(fact))


def _is_plain_word(fact: Fact) -> bool:
    """Whether it tells nothing where it stands alone: its sentence would, and may be shown instead.

    What nobody but the assistant said: words, however they are joined, counts, days and what was
    quoted: those are of its advice. Counts and days that it said and that stand with no other word.
    A short word in capitals that the user said once. And words that stand with no other.
    """
    advised = fact.by == _ASSISTANT
    if fact.kind in _WORDS and fact.text.translate(_NO_JOINTS).isalpha():
        short = fact.uses == 1 and fact.text.isupper() and len(fact.text) <= _ABBREVIATION
        once = fact.uses == 1 or fact.kind != "path"
        return (advised and once) or not fact.label or (short and fact.by == _USER)
    counts = fact.kind in _COUNTED or _COUNT.fullmatch(fact.text) is not None
    return counts and (advised or (not fact.label and _ASSISTANT[0] in fact.by))


class Unstated:
    """The facts a prose does not state, to be shown within one budget or another."""

    def __init__(self, prose: str, facts: Sequence[Fact], count: CountText) -> None:
        said = prose.lower()
        self._facts = facts
        self._left = [
            at for at, fact in enumerate(facts) if not (said and _states(said, fact.text.lower()))
        ]
        self._count = count

    def within(self, budget: int) -> tuple[Fact, ...]:
        """The best of them, as many as the budget holds; by exact count."""
        left, facts = self._left, self._facts
        if not left or budget <= 0:
            return ()
        if self.tokens(budget) <= budget:
            return tuple(facts[at] for at in left)
        # Ranked among all, so that what a prose states does not change the order of the others.
        wanted, costs = frozenset(left), self._costs
        order = [at for at in _ranking(facts, costs) if at in wanted][:budget]
        sums = list(accumulate(costs[at] for at in order))

        def fitting(text_of: Callable[[Iterable[Fact]], str]) -> tuple[int, str]:
            def beginning(most: int) -> str:
                return text_of(facts[at] for at in sorted(order[:most]))

            return longest_beginning(sums, budget, beginning, self._count)

        fits, text = fitting(_text)
        if quoted_lines(text) != text:
            fits, _ = fitting(ledger_text)
        return tuple(facts[at] for at in sorted(order[:fits]))

    def tokens(self, budget: int) -> int:
        """Of all of them; only that they are more, where they are far more than the budget."""
        # Not counted then: counting could only waste time.
        chars = sum(len(self._facts[at].label) + len(self._facts[at].text) for at in self._left)
        return self._all_tokens if chars <= _CHARS_PER_TOKEN * budget else budget + 1

    @cached_property
    def _costs(self) -> Sequence[int]:
        return list(_costs(self._facts, self._count))

    @cached_property
    def _all_tokens(self) -> int:
        return self._count(ledger_text(self._facts[at] for at in self._left))


def ledger_text(facts: Iterable[Fact]) -> str:
    """The facts as lines ``seq speaker: label value, …``; ``""`` without any."""
    return quoted_lines(_text(facts))


def _text(facts: Iterable[Fact]) -> str:
    """The same, whatever it may read as."""
    return "\n".join(
        f"{seq} {speaker}: {'; '.join(_entries(own))}"
        for (seq, speaker), own in groupby(facts, key=lambda f: (f.seq, _speaker(f.by)))
    )


def _states(prose: str, value: str) -> bool:
    """Whether a value stands in a prose as a whole word; both are lower case."""
    at = prose.find(value)
    while at >= 0:
        end = at + len(value)
        torn = prose[at - 1 : at].isalnum() and value[0].isalnum()
        if not torn and not (prose[end : end + 1].isalnum() and value[-1].isalnum()):
            return True
        at = prose.find(value, at + 1)
    return False


# --- choosing ---------------------------------------------------------------------------------

_BASE: Final[Mapping[Kind, float]] = {
    "id": 8.0, "email": 8.0, "path": 6.0, "url": 5.0, "command": 6.0, "error": 6.0,
    "money": 4.0, "date": 4.0, "number": 2.0, "name": 2.0,
}  # fmt: skip
_REPLACED: Final = 0.1
_UNLABELLED: Final = 0.5
_COST_POWER: Final = 0.85
_OPENING_TOKENS: Final = 4
_CHARS_PER_TOKEN: Final = 8
"""More than a ledger has: its values are numbers and identifiers."""

_RESULT: Final = (Source.RESULT.value,)
SYSTEM: Final = (Source.SYSTEM.value,)
"""Who says what only a system message says."""

_ASSISTANT: Final = (Source.ASSISTANT.value,)
_USER: Final = (Source.USER.value,)
_ABBREVIATION: Final = 5
"""Letters."""

_WORDS: Final = frozenset({"id", "name", "path"})
_COUNTED: Final = frozenset({"number", "date", "name"})
_COUNT: Final = re.compile(
    r"\d{1,4}-(?:second|minute|hour|day|week|month|year|page|word|point|step)s?|\d{1,3}-\d{1,3}|Q[1-4]"
)
"""What has the form of an identifier and is none."""

_NO_JOINTS: Final = str.maketrans("", "", " .-_*")


def _costs(facts: Sequence[Fact], count: CountText) -> Iterator[int]:
    """What each fact costs, beside others of its turn; near, not exact."""
    before = -1
    for fact in facts:
        yield count(f"; {_entry(fact)}") + (_OPENING_TOKENS if fact.seq != before else 0)
        before = fact.seq


def _ranking(facts: Sequence[Fact], costs: Sequence[int]) -> list[int]:
    """The facts' positions, those worth most for their tokens first."""
    newest = max(fact.last_seq for fact in facts) or 1
    ratios = [
        -_weight(fact, newest) / math.pow(tokens, _COST_POWER)
        for fact, tokens in zip(facts, costs, strict=True)
    ]
    return sorted(range(len(facts)), key=ratios.__getitem__)


def _weight(fact: Fact, newest: int) -> float:
    weight = _standing(fact.kind, fact.by) * (1.0 + REPEATED * math.log(fact.uses))
    weight *= ONLY_IN_RESULTS if fact.by in {_RESULT, SYSTEM} else 1.0
    weight *= _REPLACED if fact.until else 1.0
    weight *= 1.0 if fact.label or fact.kind in {"command", "error"} else _UNLABELLED
    return weight * (OLDEST + NEWEST * (fact.last_seq / newest) ** 2)


@lru_cache(maxsize=256)
def _standing(kind: Kind, by: tuple[str, ...]) -> float:
    """What a fact is worth for its kind and for its speakers."""
    weight = _BASE[kind] * (1.0 + SAID_BY_USER * (Source.USER.value in by))
    return weight * (1.0 + USED_IN_CALL * (Source.CALL.value in by))


# --- rendering --------------------------------------------------------------------------------


def _speaker(by: tuple[str, ...]) -> str:
    """Whose words the fact and its label are: another who repeats the value did not say those."""
    return by[0] if by else "earlier"


def _entries(facts: Iterable[Fact]) -> Iterator[str]:
    """The facts of one line; values under one label follow it together, an owner is named once."""
    owner = ""
    for label, own in groupby(facts, key=attrgetter("label")):
        values = ", ".join(map(_value, own))
        head, mark, key = label.partition(": ")
        if mark and head == owner:
            yield f"{key} {values}"
            continue
        owner = head if mark else ""
        yield placed(label, values)


def _entry(fact: Fact) -> str:
    return placed(fact.label, _value(fact))


def _value(fact: Fact) -> str:
    return f"{fact.text} (until {fact.until})" if fact.until else fact.text
