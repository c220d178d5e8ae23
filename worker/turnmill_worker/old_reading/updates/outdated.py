"""What a text states of a conversation that no longer holds there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.updates.alike import Weights, near
from turnmill_worker.old_reading.updates.claims import Claim, Place
from turnmill_worker.old_reading.updates.statements import names_in, values_in

__all__ = ["Replaced"]

_MOST: Final = 12
"""Replaced statements of one value that a sentence is compared with, the newest."""

_MOST_VALUES: Final = 200
"""Values looked for in a text, those replaced last: this keeps it linear."""

_Value = tuple[str, str]
_NOWHERE: Final = Place(0, 0, Source.EARLIER)


class Replaced:
    """The values that a conversation has replaced, then asked about texts."""

    def __init__(
        self, claims: Sequence[Claim], pairs: Sequence[tuple[Claim, Claim]], weights: Weights
    ) -> None:
        """Of these statements, and of the older and newer ones among them."""
        self._weights = weights
        self._pairs: dict[_Value, list[tuple[Claim, Claim]]] = defaultdict(list)
        newest: dict[_Value, int] = {_value(claim): claim.place.at for claim in claims}
        for older, newer in pairs:
            # What was said again since may hold again.
            if newest[_value(older)] < newer.place.at:
                self._pairs[_value(older)].append((older, newer))

    def stated_in(self, text: Units) -> tuple[int, int]:
        """How many replaced values a text states, and how many of them as if they held."""
        found = list(self._stated([unit.text for unit in text.units]))
        known = {value for _, value, _ in found}
        return len(known), len({value for _, value, holds in found if holds})

    def stating(self, texts: Sequence[str]) -> frozenset[int]:
        """The positions of those texts that state a replaced value as if it held."""
        return frozenset(at for at, _, holds in self._stated(texts) if holds)

    def _stated(self, texts: Sequence[str]) -> Iterator[tuple[int, _Value, bool]]:
        """The positions of replaced values, and whether they are stated as if they held."""
        low = [text.lower() for text in texts] if self._pairs else []
        for value, pairs in list(self._pairs.items())[-_MOST_VALUES:]:
            written = {older.value.text.lower() for older, _ in pairs[-_MOST:]}
            found = {at for one in written for at, said in enumerate(low) if one in said}
            for at in sorted(found):
                yield at, value, self._is_current(texts[at], value, pairs[-_MOST:])

    def _is_current(self, said: str, value: _Value, pairs: Sequence[tuple[Claim, Claim]]) -> bool:
        if "(until " in said:
            return False
        for claim in _claims(said):
            for older, newer in pairs if _value(claim) == value else ():
                beside = newer.value.text.lower() in said.lower()
                if not beside and near(claim, older, newer, self._weights):
                    return True
        return False


def _value(claim: Claim) -> _Value:
    return claim.value.kind, claim.value.exact


def _claims(said: str) -> list[Claim]:
    return [*values_in(said, "", _NOWHERE), *names_in(said, _NOWHERE)]
