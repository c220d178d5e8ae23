"""Long lists: the first and the last entries open, the middle complete but folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Stretch", "stretches"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stretch(Generic[T]):
    """Neighbouring entries, shown together or folded together."""

    items: tuple[T, ...]
    folded: bool


def stretches(
    items: Sequence[T], *, first: int = 12, last: int = 40, group: int = 100
) -> tuple[Stretch[T], ...]:
    """The entries in order: ``first`` and ``last`` ones open, others folded by the ``group``.

    All are open when there are hardly more than would be anyway.
    """
    middle = items[first:-last]
    if len(middle) <= last:
        return (Stretch(tuple(items), folded=False),) if items else ()
    folded = [
        Stretch(tuple(middle[start : start + group]), folded=True)
        for start in range(0, len(middle), group)
    ]
    return (
        Stretch(tuple(items[:first]), folded=False),
        *folded,
        Stretch(tuple(items[-last:]), folded=False),
    )
