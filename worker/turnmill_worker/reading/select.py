"""Which passages stay: those that say most of what is not yet said, for what they cost.

Every word and value has a worth, which shrinks each time a kept passage says it. The passage that
adds most worth for its cost (to a power) is kept next, until the budget is used.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Passage, Reading
from turnmill_worker.reading.tables import TABLE
from turnmill_worker.reading.words import (
    CAPS,
    CODE,
    KEY,
    KIND,
    NAME,
    NUMBER,
    PLAIN,
    VALUE,
    WORD,
    common,
)

WORTH: Final = {
    WORD: 0.3,
    NAME: 7.0,
    CODE: 28.0,
    NUMBER: 10.0,
    CAPS: 20.0,
    VALUE: 2.0,
    KEY: 0.2,
    PLAIN: 0.0,
}
DECAY: Final = {
    WORD: 1.0,
    NAME: 0.7,
    CODE: 0.03,
    NUMBER: 0.15,
    CAPS: 0.1,
    VALUE: 0.1,
    KEY: 0.5,
    PLAIN: 1.0,
}
"""What each kind is worth, and what is left of that once it is said."""

ROW: Final = 6.0
"""What a row of a table counts: its columns are those that matter."""

USUAL: Final = 100
RARITY_POWER: Final = 1.3
NAME_RARITY: Final = 0.5
BY_USER, IN_CALL, REPEATED = 1.0, 1.5, 0.3
OLDEST, NEWEST, IN_TALK = 1.2, 1.4, 3.0
COST_POWER: Final = 0.85
_CHEAP: Final = 400
ALIKE: Final = 0.5
"""What is left of passages of which one was kept that differs in numbers only."""

_WORTHS = [WORTH[kind] for kind in range(8)]
_DECAYS = [DECAY[kind] for kind in range(8)]


class Pool(NamedTuple):
    """All passages there are to choose from, each with the reading it is in, and its factor."""

    readings: tuple[Reading, ...]
    passages: tuple[Passage, ...]
    homes: tuple[int, ...]
    worths: dict[int, float]
    factors: tuple[float, ...]


def pooled(
    readings: Sequence[Reading],
    budget: int,  # noqa: ARG001 - what is worth how much does not depend on it yet
    past: Mapping[str, int] = {},
    stated: Container[str] = (),
) -> Pool:
    """What the passages of readings are worth beside each other.

    ``past``: texts that no longer hold, with the turn that says so; ``stated``: those that stand
    elsewhere in the context.
    """
    readings = [each for each in readings if each.passages]
    passages = [own for each in readings for own in each.passages]
    homes = [at for at, each in enumerate(readings) for _ in each.passages]
    talk = is_talk(readings)
    worths, used = weighed(readings, talk)
    factors = _factors(readings, passages, homes, used, talk=talk)
    if past or stated:
        factors = tuple(
            0.0 if own.text in stated else PAST * factor if own.text in past else factor
            for factor, own in zip(factors, passages, strict=True)
        )
    return Pool(tuple(readings), tuple(passages), tuple(homes), worths, factors)


def is_talk(readings: Sequence[Reading]) -> bool:
    """Whether people talk to each other: next to nothing comes of tools, nor is much pasted."""
    whole = returned = pasted = 0
    for each in readings:
        for passage in each.passages:
            whole += passage.tokens
            if passage.source == r.CALL or each.role == r.RESULT:
                returned += passage.tokens
            elif passage.source == r.RESULT:
                pasted += passage.tokens
    return returned < RETURNS * whole and pasted < PASTED * whole


def weighed(
    readings: Sequence[Reading],
    talk: bool,  # noqa: FBT001 - one of two kinds of sessions
) -> tuple[dict[int, float], set[int]]:
    """What each word and value is worth, and those that stand outside of results."""
    met, last, by, fielded = _met(readings)
    by_user, in_call, lines = by[r.USER], by[r.CALL], len(readings)
    spoken = by_user | in_call | by[r.ASSISTANT]
    oldest, newest = (IN_TALK, 0.0) if talk else (OLDEST, NEWEST)
    rarity = {times: math.log(1 + lines / times) for times in set(met.values())}
    of_words = {
        times: _WORTHS[WORD] * math.pow(rare, RARITY_POWER) for times, rare in rarity.items()
    }
    found: dict[int, float] = {}
    usual = common()
    for number, times in met.items():
        kind = number & KIND
        if kind == WORD:
            found[number] = of_words[times] * (1 - usual.get(number, 0) / USUAL)
        elif kind == NAME:
            found[number] = _WORTHS[NAME] + NAME_RARITY * rarity[times]
        elif kind in _FLAT:
            found[number] = _WORTHS[kind]
        else:
            used = 1 + BY_USER * (number in by_user) + IN_CALL * (number in in_call)
            used += REPEATED * math.log(times)
            if times == 1 and number not in spoken and number not in fielded:
                used *= ONCE
            found[number] = _WORTHS[kind] * used * (oldest + newest * last[number] ** 2)
    return found, spoken


def _met(
    readings: Sequence[Reading],
) -> tuple[Counter[int], dict[int, float], list[set[int]], set[int]]:
    """In how many readings each number is, where the last is, whose it is, and those of fields."""
    met: Counter[int] = Counter()
    last: dict[int, float] = {}
    by: list[set[int]] = [set() for _ in range(5)]
    fielded: set[int] = set()
    total = sum(len(each.passages) for each in readings) or 1
    passed = 0
    for each in readings:
        told = [passage.ids for passage in each.passages]
        own: set[int] = set().union(*told, *[ids for _, _, ids in each.labels])
        for source in {passage.source for passage in each.passages}:
            by[source].update(*[p.ids for p in each.passages if p.source == source])
        fielded.update(*[passage.ids for passage in each.passages if passage.field])
        passed += len(each.passages)
        met.update(own)
        last.update(dict.fromkeys(own, passed / total))
    return met, last, by, fielded


ONCE: Final = 0.5
"""Of an identifier that stands once in what was printed and was never spoken of."""


_FLAT: Final = frozenset({KEY, PLAIN})

QUESTION, ANSWER, OF_ONESELF, TO_THE_OTHER = 0.8, 2.0, 2.5, 0.6
RETURNS, PASTED = 0.05, 0.125
CODE_IN_TALK: Final = 0.1

LEAD, LABELLED, HEADING = 1.25, 1.6, 0.3
LONG_ANSWER, LONG_REPORT, PLAIN_ANSWER = 0.7, 0.35, 6
NEVER_USED, USUAL_FIELD, USED_FIELD, USUAL_SHARE, DOUBT = 0.4, 1.4, 2.0, 0.4, 3
LONG_OUTPUT: Final = 0.35
LISTED, FEW_RECORDS = 0.25, 3
PAST: Final = 0.2
"""Of what no longer holds."""

PROMPT, NOTE = 0.05, 0.25
SPOKEN, RETURNED, RECENT = 2.0, 0.5, 1.0


def form_factor(form: int, *, talk: bool, two: bool) -> float:
    """What the form of a passage multiplies its worth by; its wording only where two talk."""
    factor = LEAD if form & r.OPENS else 1.0
    factor *= LABELLED if form & r.LABELLED else 1.0
    factor *= HEADING if form & r.HEADING else 1.0
    if talk and not form & r.PROSE:
        factor *= CODE_IN_TALK
    if two and form & r.PROSE:
        factor *= OF_ONESELF if form & r.OWN else TO_THE_OTHER if form & r.YOURS else 1.0
        factor *= QUESTION if form & r.ASKS else ANSWER if form & r.ANSWERS else 1.0
    return factor


def _factors(
    readings: Sequence[Reading],
    passages: Sequence[Passage],
    homes: Sequence[int],
    used: set[int],
    *,
    talk: bool,
) -> tuple[float, ...]:
    two = talk and {r.USER, r.ASSISTANT} <= {each.role for each in readings}
    forms = {
        form: form_factor(form, talk=talk, two=two)
        for form in {passage.form for passage in passages}
    }
    slots = not talk and not _passes_identifiers(passages)
    fields = _field_factors(passages, used, slots=slots)
    length = [len(each.passages) for each in readings]
    last = max(len(readings) - 1, 1)
    power = LONG_ANSWER if talk else LONG_REPORT
    found = []
    for passage, home in zip(passages, homes, strict=True):
        reading, source, long = readings[home], passage.source, length[home] > PLAIN_ANSWER
        if reading.role == TABLE:
            found.append(ROW)
            continue
        factor = forms[passage.form]
        if source == r.RESULT:
            factor *= fields.get(passage.field, 1.0) * _result_factor(passage, reading, used)
        elif source == r.ASSISTANT and says_nothing(passage):
            factor = 0.0
        elif source == r.ASSISTANT and long:
            factor *= (PLAIN_ANSWER / length[home]) ** power
        elif source == r.SYSTEM:
            factor *= PROMPT if long else NOTE
        if slots:
            factor *= SPOKEN if source < r.SYSTEM else RETURNED if source == r.RESULT else 1.0
            factor *= 1 + RECENT * (home / last) ** 2
        found.append(factor)
    return tuple(found)


def _result_factor(passage: Passage, reading: Reading, used: set[int]) -> float:
    """Of a line of a long output, or of one of many records that nobody spoke of, it is less."""
    if not passage.field:
        return float(min(1.0, PLAIN_ANSWER / len(reading.passages)) ** LONG_OUTPUT)
    listed = len(reading.labels)
    if listed > FEW_RECORDS and used.isdisjoint(passage.ids):
        return float((FEW_RECORDS / listed) ** LISTED)
    return 1.0


def says_nothing(passage: Passage) -> bool:
    """Whether a sentence has no more than one word that says something: "Understood.", "step 7"."""
    return sum(number & KIND != PLAIN for number in passage.ids) < 2  # noqa: PLR2004


def _passes_identifiers(passages: Iterable[Passage]) -> bool:
    """Whether users and calls name things by identifiers, not by plain words and numbers."""
    return any(passage.form & r.NAMES for passage in passages)


def _field_factors(passages: Iterable[Passage], used: set[int], *, slots: bool) -> dict[int, float]:
    """Of each field of results, by how much of what it held was said or passed on."""
    held: dict[int, set[int]] = defaultdict(set)
    for passage in passages:
        if passage.field and passage.source == r.RESULT:
            held[passage.field].update(passage.ids)
    factors = {}
    for field, whole in held.items():
        share = (DOUBT * USUAL_SHARE + len(whole & used)) / (DOUBT + len(whole))
        if share < USUAL_SHARE and not slots:
            factors[field] = NEVER_USED + (USUAL_FIELD - NEVER_USED) * share / USUAL_SHARE
        else:
            factors[field] = 1.0 + (USED_FIELD - 1.0) * share
    return factors


class _Greedy:
    """A lazy greedy choice: worth only shrinks, so what was worked out before is an upper bound.

    It stays one from run to run; what has become cheaper is worked out anew.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.left = dict(pool.worths)
        self.places = [
            (home, home << 16 | own.group)
            for home, own in zip(pool.homes, pool.passages, strict=True)
        ]
        self.lines = {at: each.opening for at, each in enumerate(pool.readings)}
        self.groups = {
            at << 16 | group: label[1]
            for at, each in enumerate(pool.readings)
            for group, label in enumerate(each.labels)
        }
        self.by_line: dict[int, list[int]] = defaultdict(list)
        self.by_group: dict[int, list[int]] = defaultdict(list)
        for at, (line, group) in enumerate(self.places):
            self.by_line[line].append(at)
            self.by_group[group].append(at)
        self.powers = [1.0] + [cost**-COST_POWER for cost in range(1, _CHEAP)]
        self.taken = bytearray(len(self.places))
        self.paid: dict[int, int] = {}
        self.share = [1.0] * len(self.places)
        self.alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.patterns = [_pattern(own) for own in pool.passages]
        for at, pattern in enumerate(self.patterns):
            self.alike[pattern].append(at)
        self.bounds = [-self.score(at) for at in range(len(self.places))]

    def cost(self, at: int) -> int:
        line, group = self.places[at]
        return self.pool.passages[at].tokens + self.lines.get(line, 0) + self.groups.get(group, 0)

    def score(self, at: int) -> float:
        """What a passage adds for its cost."""
        line, group = self.places[at]
        passage = self.pool.passages[at]
        ids = passage.ids
        cost = passage.tokens + self.lines.get(line, 0) + self.groups.get(group, 0)
        gain = sum(map(self.left.__getitem__, ids))
        if group in self.groups and (label := self.pool.readings[line].labels[passage.group][2]):
            gain += sum(map(self.left.__getitem__, label))
        return (
            gain
            * self.pool.factors[at]
            * self.share[at]
            * (self.powers[cost] if cost < _CHEAP else float(cost**-COST_POWER))
        )

    def run(self, budget: int, source: int | None = None) -> list[int]:
        """Passages in the order they are taken, while their costs stay within the budget."""
        allowed = [
            at for at, own in enumerate(self.pool.passages)
            if not self.taken[at] and (source is None or own.source == source)
        ]  # fmt: skip
        bounds = self.bounds
        heap = [(bounds[at], at) for at in allowed]
        heapq.heapify(heap)
        taken, order = self.taken, []
        while heap:
            before, at = heap[0]
            if taken[at]:
                heapq.heappop(heap)
                continue
            now = bounds[at] = -self.score(at)
            if now > before + 1e-12:
                heapq.heapreplace(heap, (now, at))
                continue
            heapq.heappop(heap)
            if now >= 0:
                break
            if (cost := self.cost(at)) > budget:
                continue
            budget -= cost
            self.paid[at] = cost
            order.append(at)
            for other in self._take(at):
                if not taken[other] and (
                    source is None or self.pool.passages[other].source == source
                ):
                    heapq.heappush(heap, (bounds[other], other))
        return order

    def rows(self, budget: int) -> list[int]:
        """Rows of tables, the newest first, while their costs stay within the budget."""
        order = []
        for at in reversed(range(len(self.places))):
            if self.pool.readings[self.pool.homes[at]].role == TABLE and not self.taken[at]:
                if (cost := self.cost(at)) > budget:
                    continue
                budget -= cost
                self.paid[at] = cost
                order.append(at)
                self._take(at)
        return order

    def _take(self, at: int) -> list[int]:
        """Marks what a passage says as said; returns those that have become cheaper."""
        line, group = self.places[at]
        passage = self.pool.passages[at]
        self.taken[at] = 1
        for number in passage.ids:
            self.left[number] *= _DECAYS[number & KIND]
        if group in self.groups:
            for number in self.pool.readings[line].labels[passage.group][2]:
                self.left[number] *= _DECAYS[number & KIND]
        if self.patterns[at]:
            for other in self.alike[self.patterns[at]]:
                self.share[other] *= ALIKE
        cheaper = (
            self.by_line[line]
            if line in self.lines
            else self.by_group[group]
            if group in self.groups
            else []
        )
        self.lines.pop(line, None)
        self.groups.pop(group, None)
        for other in cheaper:
            self.bounds[other] = -self.score(other)
        return cheaper


def _pattern(passage: Passage) -> tuple[int, ...]:
    """By what a sentence or a call is like others: all but its amounts; empty for a field."""
    if passage.field and passage.source != r.CALL:
        return ()
    if passage.source == r.CALL:
        return tuple([each for each in passage.ids if each & KIND != NUMBER])
    return tuple([each for each in passage.ids if each & KIND in {WORD, PLAIN}])


class Chosen(NamedTuple):
    """What stays: in the order it was taken, in order of the conversation, and as text."""

    order: list[int]
    kept: list[int]
    text: str


def select(
    pool: Pool,
    budget: int,
    count: Callable[[str], int],
    *,
    past: Mapping[str, int] = {},
    more: int = 0,
) -> Chosen:
    """The passages that stay, and their text, which has at most so many tokens.

    ``more``: tokens of passages that would be next; they stand in the order, too.
    """
    greedy = _Greedy(pool)
    order = greedy.run(int(FOR_USER * budget), r.USER)
    order += greedy.rows(budget - sum(map(greedy.paid.__getitem__, order)))
    order += greedy.run(budget - sum(map(greedy.paid.__getitem__, order)))
    text = render(pool, sorted(order), past)
    free = budget - count(text)
    if free >= WORTH_FILLING:
        order += greedy.run(free)
        text = render(pool, sorted(order), past)
        free = budget - count(text)
    while free < 0 and order:
        free += pool.passages[order.pop()].tokens
        if free >= 0:
            text = render(pool, sorted(order), past)
            free = budget - count(text)
    return Chosen(order + greedy.run(more), sorted(order), text if order else "")


FOR_USER: Final = 0.05
"""Of a budget, what is first for the user's own words."""

WORTH_FILLING: Final = 6
"""Tokens: what was taken is often cheaper together than was thought."""


def trimmed(pool: Pool, order: Sequence[int], tokens: int) -> list[Reading]:
    """The readings with only their best passages, of at most so many tokens together."""
    chosen: dict[int, list[int]] = defaultdict(list)
    for at in order:
        if pool.readings[pool.homes[at]].role == TABLE:
            continue
        tokens -= pool.passages[at].tokens
        if tokens < 0:
            break
        chosen[pool.homes[at]].append(at)
    return [
        pool.readings[home]._replace(passages=tuple(pool.passages[at] for at in sorted(own)))
        for home, own in sorted(chosen.items())
    ]


def render(pool: Pool, kept: Sequence[int], past: Mapping[str, int]) -> str:
    """The passages as lines, each opened by the number and the speaker of its message."""
    lines: list[str] = []
    home = group = -1
    told = ""
    rows = Counter(
        own for own in map(pool.homes.__getitem__, kept) if pool.readings[own].role == TABLE
    )
    for at in kept:
        passage, reading = pool.passages[at], pool.readings[pool.homes[at]]
        if own := rows.get(pool.homes[at]):
            if pool.homes[at] != home:
                home = pool.homes[at]
                left = len(reading.passages) - own + int(reading.labels[0][0])
                lines.append(f"{reading.who}{f' ({left} earlier rows left out)' if left else ''}")
            lines.append(passage.text)
            continue
        changed = past.get(passage.text)
        text = f"{passage.text} (changed in turn {changed})" if changed else passage.text
        label = reading.labels[passage.group][0]
        if pool.homes[at] != home:
            home, first = pool.homes[at], reading.labels[0][0]
            call = first if first.endswith(r.CAME_OF) else ""
            label = "" if label == call else label
            if lines and call == f"{lines[-1].partition(':')[2].strip()} {r.CAME_OF}":
                call = ""  # it stands right above
            who = "tool" if call.startswith(f"{reading.who}(") else reading.who  # named once
            lines.append(f"{reading.seq} {who}: {call} {label} {text}")
        elif passage.group == group:
            lines[-1] += f" {text}"
        elif label and label == told:
            lines[-1] += f" | {text}"
        else:
            lines[-1] += f"; {label} {text}" if label else f"; {text}"
        group, told = passage.group, label
    # Nothing that a tool or a model wrote, be it the name of a field, begins a line of its own.
    return "\n".join(" ".join(line.split()) for line in lines)
