"""What stands for the turns a compaction covers: read once, and asked for as text in any budget.

A digest begins with what is `Known` of the turns covered before, takes in those that are covered
now, and gives the best passages, tables and lists in a budget. What it keeps for the next one is
bounded by that budget, not by the session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from turnmill_worker.reading.known import Known
from turnmill_worker.reading.passages import SYSTEM, USER, Passage, Reading, with_calls
from turnmill_worker.reading.readings import of_older_pool
from turnmill_worker.reading.said import Said
from turnmill_worker.reading.score import Unit, lines_of, units_of, weightiest
from turnmill_worker.reading.select import (
    DECAY,
    Chosen,
    Pool,
    is_talk,
    pooled,
    render,
    select,
    trimmed,
    weighed,
)
from turnmill_worker.reading.tables import Covered
from turnmill_worker.reading.words import KIND, NAME, PLAIN

__all__ = ["Digest"]

_POOL: Final = 2
"""How many times the tokens of a summary are kept to choose the next one from."""

_LEAST_POOL: Final = 2_048
_MOST_POOL: Final = 16_384
"""For any budget: every compaction loads and writes the pool."""

_FOR_LISTS: Final = 3
"""Lists that stand whole take this part of a budget at most."""

_ANY_ROOM: Final = 1 << 30
"""As if there were room for all lists: to see whether a text beside has them."""


def _pool(budget: int) -> int:
    """Tokens of passages that are kept beside summaries of so many."""
    return min(max(_POOL * budget, _LEAST_POOL), _MOST_POOL)


class _Written(NamedTuple):
    """A text, and what it was chosen from."""

    lists: str
    pool: Pool
    chosen: Chosen
    columns: Mapping[str, Sequence[str]]
    past: Mapping[str, int]

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.lists, self.chosen.text)))


class Digest:
    """What may stand for covered turns.

    Attributes:
        known: of the turns covered before.
        covered: readings of the turns covered now.
    """

    def __init__(
        self,
        known: Known,
        covered: Sequence[Reading],
        count: Callable[[str], int],
        *,
        through: int,
        said: Said | None = None,
        stated: Iterable[str] = (),
        stated_in: Iterable[int] = (),
    ) -> None:
        """A digest that has chosen nothing yet.

        Args:
            known: of the turns covered before.
            covered: what the turns covered now say, oldest first.
            count: tokens of a text.
            through: the newest turn covered.
            said: what users said up to then, and perhaps later.
            stated: sentences that stand elsewhere in the context, word for word.
            stated_in: turns whose user's words do.
        """
        self.covered = tuple(with_calls(covered))
        if known.older:
            known = replace(known, readings=tuple(of_older_pool(known.older, count)), older=())
        self.known, self._count, self._through = known, count, through
        self._said = said or Said(known.said)
        self._stated, self._stated_in = "\n".join(stated), frozenset(stated_in)
        self._tables, self._states, self._makes = known.parts(count)
        for each in self.covered:
            for part in (self._tables, self._states, self._makes):
                part.add(each)
        self._stored_states: Any = None
        self._written: dict[int, _Written] = {}
        self._after: dict[int, Known] = {}
        self._worths: dict[int, float] | None = None
        self._units: list[Unit] | None = None
        self._weighty: set[tuple[int, ...]] | None = None

    def text(self, budget_tokens: int) -> str:
        """Lists, tables and passages that say most, in at most so many tokens."""
        return self._write(budget_tokens).text

    def beside(self, text: str, budget_tokens: int) -> str:
        """The same beside a text of somebody else, without what that says itself."""
        if budget_tokens <= 0:
            return ""
        return self._choose(budget_tokens, lines_of([text])).text

    def rest_of(self, budget_tokens: int, text: str, room: int) -> str:
        """What is left of ``text(budget_tokens)`` beside a text of somebody else.

        Its best passages in so many tokens, without what that text says. Unlike ``beside`` it
        chooses nothing anew, which takes most of the time.
        """
        lines = lines_of([text])
        written = self._write(budget_tokens)
        pool, lists = written.pool, written.lists
        room -= self._count(lists) + 1 if lists else 0
        own = [at for at in written.chosen.order if not _says(pool.passages[at].ids, lines)]
        if self._weighty is None:
            self._weighty = {tuple(unit.ids) for unit in weightiest(self.units)}
        weighty = self._weighty

        def stays(own: Passage) -> bool:
            return own.source == USER or bool(own.field) or own.ids in weighty

        # What nobody of the users said and hardly counts leaves first; the others keep their order.
        own.sort(key=lambda at: not stays(pool.passages[at]))
        order: list[int] = []
        said, left = "", room
        for _ in range(_ROUNDS):
            order += _cheapest(pool, own, order, left)
            said = render(pool, sorted(order), written.past)
            left = room - self._count(said)
            while left < 0 and order:
                left += pool.passages[order.pop()].tokens
                if left >= 0:
                    said = render(pool, sorted(order), written.past)
                    left = room - self._count(said)
        return "\n".join(filter(None, (lists, said if order else "")))

    def earlier(self, budget_tokens: int) -> str:
        """The best original passages of turns covered before; "" where none is kept."""
        readings = self.known.readings
        if not readings:
            return ""
        return select(pooled(readings, budget_tokens), budget_tokens, self._count).text

    def after(self, budget_tokens: int) -> Known:
        """What is kept of it for the next compaction, beside summaries of so many tokens."""
        found = self._after.get(budget_tokens)
        if found is None:
            found = self._after[budget_tokens] = self._kept_after(budget_tokens)
        return found

    @property
    def worths(self) -> Mapping[int, float]:
        """What words and values of these turns are worth."""
        if self._worths is None:
            readings = [*self.known.readings, *self.covered]
            self._worths = weighed(readings, is_talk(readings))[0]
        return self._worths

    @property
    def units(self) -> list[Unit]:
        """What may be lost: of the turns covered now, and what was kept of those before."""
        # Not a cached_property: Python 3.11 shares the lock of one among all threads.
        if self._units is None:
            self._units = units_of([*self.known.readings, *self.covered], self.worths)
        return self._units

    def see_later(self, readings: Iterable[Reading]) -> None:
        """Take in turns that stay as they are: a list that one of them writes anew need not stand.

        Nothing of them is kept.
        """
        self._stored_states = self._states.to_json()
        for each in readings:
            self._states.add(each)

    @property
    def has_lists(self) -> bool:
        """Whether a tool has written a whole list in these turns."""
        return bool(self._states.found)

    def _write(self, budget: int) -> _Written:
        found = self._written.get(budget)
        if found is None:
            found = self._written[budget] = self._choose(budget)
        return found

    def _choose(self, budget: int, beside: Sequence[frozenset[int]] = ()) -> _Written:
        gone, lists = self._settled(budget, beside)
        left = budget - (self._count(lists) + 1 if lists else 0)
        built = self._tables.build(self._through, left, self._said.changed_by(self._through))
        places = defaultdict(list, {seq: list(own) for seq, own in built.places.items()})
        for seq, first, last in gone:
            places[seq].append(Covered(first, last))
        readings = self._without([*self.known.readings, *self.covered], places)
        stated = self._stated_texts(readings) | built.texts
        changed = self._changed(readings)
        candidates = [*readings, *built.readings]
        if beside:
            candidates = [_unsaid(each, beside) for each in candidates]
        pool = pooled([each for each in candidates if each.passages], left, changed, stated)
        if beside:
            pool = _without_said(pool, beside)
        chosen = select(pool, left, self._count, past=changed, more=0 if beside else _pool(budget))
        return _Written(lists, pool, chosen, built.columns, changed)

    def _settled(
        self, budget: int, beside: Sequence[frozenset[int]]
    ) -> tuple[Iterable[tuple[int, int, int]], str]:
        """Where lists need not stand, and those that stand; none that a text beside has."""
        if beside:
            gone = self._states.settle(self._through, _ANY_ROOM, self._count)
            lists = lines_of([self._states.standing(self._through)])
            if lists and all(_says(ids, beside) for ids in lists):
                return gone, ""
        gone = self._states.settle(self._through, budget // _FOR_LISTS, self._count)
        return gone, self._states.standing(self._through)

    def _stated_texts(self, readings: Iterable[Reading]) -> set[str]:
        return {
            own.text
            for each in readings
            for own in each.passages
            if self._stands_elsewhere(each, own)
        }

    def _changed(self, readings: Iterable[Reading]) -> dict[str, int]:
        """Passages of users that a later sentence changed, with the turn that did."""
        past = self._said.changed_by(self._through)
        if not past:
            return {}
        return {
            own.text: seq
            for each in readings
            for own in each.passages
            if own.source == USER
            for text, seq in past.items()
            if own.text in text
        }

    def _without(
        self, readings: Iterable[Reading], gone: Mapping[int, Sequence[Covered]]
    ) -> list[Reading]:
        """Readings but for what tables and lists say, and for what echoes its neighbours."""
        found = []
        for each in readings:
            spans = gone.get(each.seq, ())
            passages = tuple([own for own in each.passages if self._stays(own, spans)])
            if len(passages) < len(each.passages):
                each = each._replace(passages=passages)  # noqa: PLW2901 - the same without some
            found.append(each)
        return found

    def _stays(self, own: Passage, spans: Sequence[Covered]) -> bool:
        return not any(span.has(own) for span in spans) and not (
            own.source < SYSTEM and self._makes.echoed(own.text)
        )

    def _kept_after(self, budget: int) -> Known:
        tokens = _pool(budget)
        written = self._write(budget)
        pool = written.pool
        # What stands elsewhere now may have to stand here later.
        aside = [
            at
            for at, own in enumerate(pool.passages)
            if self._stands_elsewhere(pool.readings[pool.homes[at]], own)
        ]
        chosen = set(written.chosen.order)
        order = [*written.chosen.order, *(at for at in aside if at not in chosen)]
        readings = tuple(trimmed(pool, order, tokens))
        self._tables.trim(self._through, written.columns, tokens)
        self._makes.forget({own.text for each in readings for own in each.passages})
        return Known(
            through=self._through,
            readings=readings,
            said=tuple(self._said.up_to(self._through)),
            tables=self._tables.to_json(),
            states=self._stored_states or self._states.to_json(),
            makes=self._makes.to_json(),
        )

    def _stands_elsewhere(self, reading: Reading, own: Passage) -> bool:
        """Whether a user's passage stands among the rules or requests."""
        stated = reading.seq in self._stated_in or own.text in self._stated
        return reading.role == USER and stated


_SAID: Final = 0.8
"""What a line says to so large a part, it need not hear again."""


_ROUNDS: Final = 2
"""Passages are often cheaper together than was thought: there is room for some more then."""


def _cheapest(pool: Pool, own: Sequence[int], taken: Sequence[int], room: int) -> list[int]:
    """The next of these passages, best first, while their costs stay within the room."""
    homes = {pool.homes[at] for at in taken}
    known, found = set(taken), []
    for at in own:
        home, passage = pool.homes[at], pool.passages[at]
        cost = passage.tokens + (0 if home in homes else pool.readings[home].opening)
        if at not in known and cost <= room:
            found.append(at)
            homes.add(home)
            room -= cost
    return found


def _unsaid(reading: Reading, lines: Sequence[frozenset[int]]) -> Reading:
    """A reading without the passages that these lines say."""
    left = tuple([own for own in reading.passages if not _says(own.ids, lines)])
    return reading if len(left) == len(reading.passages) else reading._replace(passages=left)


def _without_said(pool: Pool, lines: Sequence[frozenset[int]]) -> Pool:
    """A pool in which what these lines say is worth less."""
    worths = dict(pool.worths)
    for number in frozenset().union(*lines) & worths.keys():
        worths[number] *= DECAY[number & KIND]
    return pool._replace(worths=worths)


def _says(ids: Iterable[int], lines: Sequence[frozenset[int]]) -> bool:
    """Whether one line says nearly all of it."""
    own = frozenset([each for each in ids if each & KIND not in {PLAIN, NAME}])
    return any(len(own & line) >= _SAID * len(own) for line in lines)
