"""Long lists: the first and the last entries open, the middle complete but folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["FoldedGroup", "folded_groups"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoldedGroup(Generic[T]):
    """Neighbouring entries, shown together or folded together."""

    items: tuple[T, ...]
    folded: bool


def folded_groups(
    items: Sequence[T], *, first: int = 12, last: int = 40, group: int = 100
) -> tuple[FoldedGroup[T], ...]:
    """The entries in order: ``first`` and ``last`` ones open, others folded by the ``group``.

    All are open when there are hardly more than would be anyway.
    """
    middle = items[first:-last]
    if len(middle) <= last:
        return (FoldedGroup(tuple(items), folded=False),) if items else ()
    folded = [
        FoldedGroup(tuple(middle[start : start + group]), folded=True)
        for start in range(0, len(middle), group)
    ]
    return (
        FoldedGroup(tuple(items[:first]), folded=False),
        *folded,
        FoldedGroup(tuple(items[-last:]), folded=False),
    )
