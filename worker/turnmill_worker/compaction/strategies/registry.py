"""Strategies by name: turnmill's own register themselves, and so do those of other packages.

A strategy is one module with one ``register``. A package of somebody else's offers an ``Elides`` or
``Covers`` as an entry point in ``GROUP``, under the name that policies use; workers register those
when they start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from turnmill.contract.estimate import Counter
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.compaction.snapshot import INTERACTIONS, Snapshot
from turnmill_worker.errors import InvalidSettings, UnknownStrategy

GROUP: Final = "turnmill.strategies"
"""The entry point group a package offers its strategies in."""


class Elides(NamedTuple):
    """A strategy that replaces what is bulky by stubs, and leaves every turn where it is.

    Attributes:
        apply: the snapshot with its elisions; the same one where there is nothing to replace.
        names_plan: a plan has its name; False: only if no other elided anything.
    """

    apply: Callable[[Snapshot, Counter], Snapshot]
    names_plan: bool = True


class Covers(NamedTuple):
    """A strategy that covers turns.

    Attributes:
        plan: what it would do; None when that helps nobody.
        lowers: the count it lowers besides tokens.
        budget: tokens it leaves for the turns it keeps; None if the policy says which those are.
    """

    plan: Callable[[Snapshot, Counter], Plan | None]
    lowers: str = INTERACTIONS
    budget: Callable[[Snapshot, Counter], int] | None = None


Strategy = Elides | Covers

_REGISTERED: Final[dict[str, Strategy]] = {}


def register(name: str, strategy: Strategy) -> None:
    """Let policies name the strategy.

    Raises:
        InvalidSettings: it is none, or there is another of this name.
    """
    if not isinstance(strategy, Elides | Covers):
        raise InvalidSettings(f"strategy {name!r}: a {type(strategy).__name__} is no strategy")
    if _REGISTERED.setdefault(name, strategy) != strategy:
        raise InvalidSettings(f"strategy {name!r}: there is another of this name")


def registered() -> list[str]:
    """The names a policy may use here."""
    return sorted(_REGISTERED)


def strategy_of(name: str) -> Strategy:
    """The strategy of this name, which is registered."""
    return _REGISTERED[name]


def unknown_of(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a policy's strategies that this worker has to pass over."""
    return tuple(name for name in names if name not in _REGISTERED)


def known_of(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a policy's strategies that are registered here, in order.

    Raises:
        UnknownStrategy: none is.
    """
    known = tuple(name for name in names if name in _REGISTERED)
    if not known:
        raise UnknownStrategy(
            f"no strategy {', '.join(names)}: there are {', '.join(registered())}; "
            f"packages offer others as entry points of the group {GROUP}"
        )
    return known
