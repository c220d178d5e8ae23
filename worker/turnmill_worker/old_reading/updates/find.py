"""Which statements of a conversation a later one has made past."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from turnmill.contract.rules import Rule
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates.alike import Weights, can_replace, near, replaces
from turnmill_worker.old_reading.updates.claims import Claim
from turnmill_worker.old_reading.updates.ended_rules import ended_rules
from turnmill_worker.old_reading.updates.fields import replaced_fields
from turnmill_worker.old_reading.updates.outdated import Replaced
from turnmill_worker.old_reading.updates.replaced import replaced_names
from turnmill_worker.old_reading.updates.statements import stated_in

__all__ = ["Newer", "Told", "marked", "newest_first", "pairs_of", "superseded"]


class Newer(NamedTuple):
    """What made a statement past.

    Attributes:
        value: the value or the rule that holds no longer, as the older unit writes it.
        seq: the turn that states the newer one; 0 if it is unknown.
        unit: the position of the unit that does; that of the older one where none is left.
    """

    value: str
    seq: int
    unit: int


_NEWEST: Final = 12
"""Older statements about one word that are looked at, the newest first: this keeps it linear."""

_NEAREST: Final = 5
_RAREST: Final = 2
"""Words of a statement by which older ones are looked for."""

_SAID: Final = 2.0
"""A user's statement is rather what another of the user's replaces than what was made of it."""

_RECENT_LINES: Final = 6
"""So far back an answer that leaves out what it is about can reach."""


class Told:
    """What is told in the parts of a conversation; each continues the one before. Read once."""

    def __init__(self, *parts: Units, in_force: Sequence[Rule] = ()) -> None:
        """``in_force`` are the rules that hold after all of it."""
        self.parts = parts
        self._in_force = in_force

    @cached_property
    def whole(self) -> Units:
        """All parts as one; many share it, so never change it."""
        if len(self.parts) == 1:
            return self.parts[0]
        whole = Units([], [])
        for part in self.parts:
            whole.add_all(part)
        return whole

    @cached_property
    def claims(self) -> Sequence[Claim]:
        """What people state, in order."""
        return stated_in(self.parts)

    @cached_property
    def pairs(self) -> Sequence[tuple[Claim, Claim]]:
        """Older and newer statements of one thing."""
        return list(pairs_of(self.claims, self._weights))

    @cached_property
    def _weights(self) -> Weights:
        return Weights(self.claims)

    @cached_property
    def replaced(self) -> Replaced:
        """The values that were replaced, to be looked for in texts."""
        return Replaced(self.claims, self.pairs, self._weights)

    @cached_property
    def news(self) -> frozenset[int]:
        """The units that say that what they state replaces what an earlier one stated."""
        return frozenset(one.place.at for _, one in self.pairs if one.new or one.was)

    @cached_property
    def past(self) -> Mapping[int, tuple[Newer, ...]]:
        """The units whose value or rule a later turn has replaced, by position."""
        whole = self.whole
        past: dict[int, dict[str, Newer]] = defaultdict(dict)
        pairs = [(older.place.at, older.value.text, newer.place.at) for older, newer in self.pairs]
        for older, value, newer in [*pairs, *replaced_names(whole), *replaced_fields(whole)]:
            seq = whole.lines[whole.units[newer].line].seq or 0
            known = past[older].get(value)
            if known is None or newer < known.unit:
                past[older][value] = Newer(value, seq, newer)
        for at, text, seq, newer in ended_rules(whole, self._in_force):
            if at not in past:
                past[at][text] = Newer(text, seq, newer)
        return {at: tuple(by_value.values()) for at, by_value in sorted(past.items())}


def superseded(*parts: Units) -> Mapping[int, tuple[Newer, ...]]:
    """The units whose value a later unit has replaced, by position. Pure and linear.

    Of several parts, each continues the one before; positions go on from one to the next.
    """
    return Told(*parts).past


def marked(text: str, newer: Sequence[Newer]) -> str:
    """The text with each value that holds no longer marked ``(until 40)``.

    Where a shorter text does not hold the value as it was written, its end is marked.
    """
    for value, seq, _ in newer:
        at = text.find(value)
        end = at + len(value) if at >= 0 else len(text)
        if not text.startswith(" (until ", end):
            text = f"{text[:end]} (until {seq}){text[end:]}"
    return text


def newest_first(order: Sequence[int], past: Mapping[int, Sequence[Newer]]) -> list[int]:
    """The order, with each statement of a newer value right before the first it makes past.

    So a beginning of it that holds the old value holds the newer one, too.
    """
    found: dict[int, None] = {}
    for at in order:
        waiting = [at]
        while waiting:
            newer = [
                one.unit
                for one in past.get(waiting[-1], ())
                if one.unit > waiting[-1] and one.unit not in found
            ]
            if newer:
                waiting.append(newer[0])
            else:
                found[waiting.pop()] = None
    return list(found)


def pairs_of(claims: Sequence[Claim], weights: Weights) -> Iterator[tuple[Claim, Claim]]:
    """Older and newer statements of one thing; each is replaced at most once."""
    held = _Held(weights)
    for claim in claims:
        if can_replace(claim):
            older = held.replaced_by(claim)
            if older is not None:
                yield from ((same, claim) for same in held.take(older, claim))
        held.add(claim)


class _Held:
    """Statements that nothing has replaced so far, the newest of each kind and word."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._by_root: dict[tuple[str, str], deque[Claim]] = defaultdict(_newest)
        self._by_value: dict[tuple[str, str], deque[Claim]] = defaultdict(_echoes)
        self._last: dict[str, Claim] = {}
        self._gone: set[int] = set()
        self._had: dict[int, frozenset[str]] = {}

    def add(self, claim: Claim) -> None:
        """Hold one more, behind all before."""
        kind = claim.value.kind
        for root in claim.subject.roots:
            self._by_root[kind, root].append(claim)
        self._by_value[kind, claim.value.exact].append(claim)
        self._last[kind] = claim

    def take(self, older: Claim, newer: Claim) -> list[Claim]:
        """The replaced statement and others of its value and thing, which are no longer held."""
        alike = self._by_value[older.value.kind, older.value.exact]
        gone = [
            same
            for same in alike
            if same is older
            or (
                same.place.line != newer.place.line
                and id(same) not in self._gone
                and near(same, older, newer, self._weights)
            )
        ]
        self._gone.update(map(id, gone))
        self._had[id(newer)] = self._had.get(id(older), frozenset()) | {older.value.exact}
        return gone

    def replaced_by(self, claim: Claim) -> Claim | None:
        """The statement that this one replaces, or None."""
        last = self._last.get(claim.value.kind)
        if claim.elliptic and claim.new and last is not None:
            lines = claim.place.line - last.place.line
            if 0 < lines <= _RECENT_LINES and last.value.exact != claim.value.exact:
                return last
        best: tuple[float, int] = (0.0, -1)
        chosen = None
        for older in self._candidates(claim):
            if not claim.new and claim.value.exact in self._had.get(id(older), ()):
                continue  # What it replaced is told again: of the past, or nobody knows.
            score = replaces(claim, older, self._weights)
            score *= 1.0 if older.place.source is Source.ASSISTANT else _SAID
            if score and (score, older.place.at) > best:
                best, chosen = (score, older.place.at), older
        return chosen

    def _candidates(self, claim: Claim) -> Iterator[Claim]:
        """Held statements that share one of the words that tell most, each once."""
        kind, roots = claim.value.kind, claim.subject.roots
        rarest = sorted(roots[_NEAREST:], key=lambda root: -self._weights.of(root))
        seen = set[int]()
        for root in (*roots[:_NEAREST], *rarest[:_RAREST]):
            for older in reversed(self._by_root.get((kind, root), ())):
                known = id(older) in seen or id(older) in self._gone
                if not known and older.place.at != claim.place.at:
                    seen.add(id(older))
                    yield older


def _newest() -> deque[Claim]:
    return deque(maxlen=_NEWEST)


def _echoes() -> deque[Claim]:
    return deque(maxlen=4 * _NEWEST)
