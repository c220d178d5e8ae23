"""What a text states of a conversation that no longer holds there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from turnmill_worker.reading.units import Source, Units
from turnmill_worker.reading.updates.alike import Weights, near
from turnmill_worker.reading.updates.claims import Claim
from turnmill_worker.reading.updates.find import Told
from turnmill_worker.reading.updates.statements import names_in, values_in

__all__ = ["Replaced"]

_MOST: Final = 12
"""Replaced statements of one value that a sentence is compared with, the newest."""

_MOST_VALUES: Final = 200
"""Values looked for in a text, those replaced last: this keeps it linear."""

_Value = tuple[str, str]


class Replaced:
    """The values that a conversation has replaced. Read once, then asked about texts."""

    def __init__(self, told: Told) -> None:
        """Finds them in what was told."""
        claims = told.claims
        self._weights = Weights(claims)
        self._pairs: dict[_Value, list[tuple[Claim, Claim]]] = defaultdict(list)
        newest: dict[_Value, int] = {_value(claim): claim.place.at for claim in claims}
        for older, newer in told.pairs:
            # What was said again since may hold again.
            if newest[_value(older)] < newer.place.at:
                self._pairs[_value(older)].append((older, newer))

    def stated_in(self, text: Units) -> tuple[int, int]:
        """How many replaced values a text states, and how many of them as if they held."""
        known, current = set[_Value](), set[_Value]()
        low = [unit.text.lower() for unit in text.units] if self._pairs else []
        for value, pairs in list(self._pairs.items())[-_MOST_VALUES:]:
            written = {older.value.text.lower() for older, _ in pairs[-_MOST:]}
            for at, said in enumerate(low):
                if any(map(said.__contains__, written)):
                    known.add(value)
                    if self._is_current(text, at, value, pairs[-_MOST:]):
                        current.add(value)
        return len(known), len(current)

    def _is_current(
        self, text: Units, at: int, value: _Value, pairs: Sequence[tuple[Claim, Claim]]
    ) -> bool:
        said = text.units[at].text
        if "(until " in said:
            return False
        for claim in _claims(text, at):
            for older, newer in pairs if _value(claim) == value else ():
                beside = newer.value.text.lower() in said.lower()
                if not beside and near(claim, older, newer, self._weights):
                    return True
        return False


def _value(claim: Claim) -> _Value:
    return claim.value.kind, claim.value.exact


def _claims(text: Units, at: int) -> tuple[Claim, ...]:
    said = text.units[at].text
    return values_in(said, "", Source.EARLIER) + names_in(said, Source.EARLIER)
