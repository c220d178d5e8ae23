"""Which statements of a conversation a later one has made past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from turnmill_worker.reading.units import Source, Units
from turnmill_worker.reading.updates.alike import Weights, near, replaces
from turnmill_worker.reading.updates.claims import Claim
from turnmill_worker.reading.updates.fields import replaced_fields
from turnmill_worker.reading.updates.replaced import replaced_names
from turnmill_worker.reading.updates.statements import stated_in

__all__ = ["Newer", "marked", "newest_first", "pairs_of", "superseded"]


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

_SAID: Final = 2.0
"""A user's statement is rather what another of the user's replaces than what was made of it."""

_RECENT_LINES: Final = 6
"""So far back an answer that leaves out what it is about can reach."""


def superseded(*parts: Units) -> dict[int, tuple[Newer, ...]]:
    """The units whose value a later unit has replaced, by position. Pure and linear.

    Of several parts, each continues the one before; positions go on from one to the next.
    """
    whole = parts[0] if len(parts) == 1 else Units([], [])
    for part in parts if len(parts) > 1 else ():
        whole.add_all(part)
    past: dict[int, dict[str, Newer]] = defaultdict(dict)
    pairs = [
        (older.place.at, older.value.text, newer.place.at)
        for older, newer in pairs_of(stated_in(parts))
    ]
    for older, value, newer in [*pairs, *replaced_names(whole), *replaced_fields(whole)]:
        seq = whole.lines[whole.units[newer].line].seq or 0
        known = past[older].get(value)
        if known is None or newer < known.unit:
            past[older][value] = Newer(value, seq, newer)
    return {at: tuple(by_value.values()) for at, by_value in sorted(past.items())}


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


def pairs_of(claims: Sequence[Claim]) -> Iterator[tuple[Claim, Claim]]:
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
                    if same.place.line == claim.place.line:
                        continue
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
