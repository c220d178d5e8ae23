"""Which statements of a conversation a later one has made past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from turnmill_worker.reading.units import Source, Units
from turnmill_worker.reading.updates.alike import Weights, near, replaces
from turnmill_worker.reading.updates.claims import Claim, Place, claims_of, names_of
from turnmill_worker.reading.updates.fields import replaced_fields
from turnmill_worker.reading.updates.news import is_news
from turnmill_worker.reading.updates.replaced import replaced_names
from turnmill_worker.reading.updates.values import has_digits

__all__ = ["Newer", "marked", "superseded"]


class Newer(NamedTuple):
    """What made a statement past.

    Attributes:
        value: the value that holds no longer, as the older unit writes it.
        seq: the turn that states the newer one; 0 if it is unknown.
        unit: the position of the unit that does.
    """

    value: str
    seq: int
    unit: int


_NEWEST: Final = 12
"""Older statements about one word that are looked at, the newest first: this keeps it linear."""

_NEAREST: Final = 5
_RAREST: Final = 2
"""Words of a statement by which older ones are looked for."""

_SHARED: Final = 2
_SAID: Final = 2.0
"""A user's statement is rather what another of the user's replaces than what was made of it."""

_RECENT_LINES: Final = 6
"""So far back an answer that leaves out what it is about can reach."""


def superseded(found: Units) -> dict[int, tuple[Newer, ...]]:
    """The units whose value a later unit has replaced, by position. Pure and linear."""
    claims = list(_claims(found))
    past: dict[int, dict[str, Newer]] = defaultdict(dict)
    pairs = [(older.place.at, older.value.text, newer.place.at) for older, newer in _pairs(claims)]
    for older, value, newer in [*pairs, *replaced_names(found), *replaced_fields(found)]:
        seq = found.lines[found.units[newer].line].seq or 0
        known = past[older].get(value)
        if known is None or newer < known.unit:
            past[older][value] = Newer(value, seq, newer)
    return {at: tuple(by_value.values()) for at, by_value in sorted(past.items())}


def marked(text: str, newer: Sequence[Newer]) -> str:
    """The text with each value that holds no longer marked ``(until 40)``."""
    for value, seq, _ in newer:
        at = text.find(value)
        end = at + len(value)
        if at >= 0 and not text.startswith(" (until ", end):
            text = f"{text[:end]} (until {seq}){text[end:]}"
    return text


def _claims(found: Units) -> list[Claim]:
    """What people state, in order; of the assistant, what some news may be about."""
    stated: list[Claim] = []
    others: list[tuple[Place, str]] = []
    before, line_before = "", -1
    for at, unit in enumerate(found.units):
        if unit.body_at:
            continue
        source = found.lines[unit.line].source
        if source is Source.RESULT or source is Source.CALL:
            continue
        place = Place(at, unit.line, source)
        said = before if unit.line == line_before else ""
        if source is not Source.ASSISTANT:
            stated += claims_of(place, unit.text, said)
            stated += names_of(place, unit.text)
        elif has_digits(unit.text):
            if is_news(unit.text):
                stated += claims_of(place, unit.text, said)
            else:
                others.append((place, unit.text))
        before, line_before = unit.text, unit.line
    news = {root[:4] for claim in stated if claim.new or claim.was for root in claim.subject.roots}
    for place, text in others if news else ():
        if len(news.intersection([word[:4] for word in text.lower().split()])) >= _SHARED:
            stated += claims_of(place, text, "")
    return sorted(stated, key=attrgetter("place.at"))


def _pairs(claims: Sequence[Claim]) -> Iterator[tuple[Claim, Claim]]:
    """Older and newer statements of one thing."""
    weights = Weights(claims)
    by_root: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    by_value: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    newest: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        kind = claim.value.kind
        if claim.new or claim.was or claim.place.source is Source.USER:
            older = _older(claim, by_root, newest, weights)
            if older is not None:
                for same in by_value[kind, older.value.exact][-_NEWEST * 4 :]:
                    if same is older or near(same, older, claim, weights):
                        yield same, claim
        for root in claim.subject.roots:
            by_root[kind, root].append(claim)
        by_value[kind, claim.value.exact].append(claim)
        newest[kind].append(claim)


def _older(
    claim: Claim,
    by_root: dict[tuple[str, str], list[Claim]],
    newest: dict[str, list[Claim]],
    weights: Weights,
) -> Claim | None:
    """The statement that this one replaces, or None."""
    kind = claim.value.kind
    if claim.elliptic and claim.new and (last := newest[kind][-1:]):
        lines = claim.place.line - last[0].place.line
        if 0 < lines <= _RECENT_LINES and last[0].value.exact != claim.value.exact:
            return last[0]
    roots = claim.subject.roots
    rarest = sorted(roots[_NEAREST:], key=lambda root: -weights.of(root))
    best: tuple[float, int] = (0.0, -1)
    chosen = None
    seen = set()
    for root in (*roots[:_NEAREST], *rarest[:_RAREST]):
        for older in reversed(by_root[kind, root][-_NEWEST:]):
            if id(older) in seen or older.place.at == claim.place.at:
                continue
            seen.add(id(older))
            score = replaces(claim, older, weights)
            score *= 1.0 if older.place.source is Source.ASSISTANT else _SAID
            if score and (score, older.place.at) > best:
                best, chosen = (score, older.place.at), older
    return chosen
