"""What background work needs from Redis: the sweep's lists, its lease, and workers' presence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from turnmill.contract.names import Namespace
from turnmill_worker.ports.values import SessionRef

Late = tuple[list[SessionRef], list[SessionRef]]
"""What was missed, on two lists."""


@dataclass(slots=True)
class Trouble:
    """What was wrong in one namespace.

    Attributes:
        why: the kind of the newest error.
        errors: lists that could not be read or mended.
        dropped: members that name no session, taken off their lists.
    """

    why: str = ""
    errors: int = 0
    dropped: int = 0


class SweepLists(Protocol):
    """All namespaces' lists, by one clock. What is wrong in one is noted and stops no other."""

    def namespaces(self) -> list[Namespace]:
        """Those that are listed, and that do not rest."""

    def announced(self) -> set[Namespace]:
        """Those whose clients have said since the last call that they push."""

    def unlisted(self) -> Iterator[list[Namespace]]:
        """Those that are used and not listed: some in each step of a search through all keys."""

    def resting(self, cursor: int, *, share: float) -> tuple[int, list[Namespace]]:
        """About this share of those at rest, after the cursor; 0 begins, and comes back last."""

    def listed(self, names: Sequence[Namespace]) -> set[Namespace]:
        """Those of them that have something listed, for now or for later."""

    def rest(self, names: Collection[Namespace]) -> None:
        """Visit these no longer with every sweep."""

    def wake(self, names: Collection[Namespace]) -> None:
        """Visit these with every sweep again."""

    def now_ms(self) -> int:
        """The time the lists go by."""

    def missed(self, names: Sequence[Namespace], *, stale_ms: int, now_ms: int, most: int) -> Late:
        """Sessions in the backlog since ``stale_ms``, and sessions due before ``now_ms``."""

    def unarchived(self, names: Sequence[Namespace]) -> list[SessionRef]:
        """Of each that has any, the session that has waited longest for the archive."""

    def uncompared(self) -> list[SessionRef]:
        """A session each of some namespaces whose archive is to be compared with Redis."""

    def forgotten(
        self, names: Sequence[Namespace], *, stale_ms: int, most: int
    ) -> list[SessionRef]:
        """Sessions to forget in the archive since ``stale_ms``."""

    def drop_expired(self, namespace: Namespace) -> bool:
        """Unlist some sessions whose keys have expired, and the namespace when none is left.

        Returns whether there may be more of them.
        """

    def take_troubles(self) -> dict[Namespace, Trouble]:
        """What was wrong in namespaces since the last call."""

    def tell(self, troubles: Mapping[Namespace, Trouble]) -> None:
        """Let everybody who looks after the workers know."""


class SweepLease(Protocol):
    """The right to sweep, one worker's at a time."""

    def take(self, *, hold_s: float) -> bool:
        """Take the lease, or extend this worker's own; whether this worker has it now."""

    def keep(self, *, hold_s: float) -> bool:
        """Hold it for longer; False when it is not this worker's."""

    def give_up(self) -> None:
        """Let another worker take over at once, if it is this one's."""


class Presence(Protocol):
    """The list of workers that are there."""

    def announce(self, entry: bytes) -> None:
        """List the worker for a minute, and drop those not announced for as long."""

    def withdraw(self, entry: bytes) -> None:
        """List the worker no longer."""


class QuarantineList(Protocol):
    """The list of messages that were put aside."""

    def add(self, entries: Sequence[dict[str, object]], *, count: int) -> None:
        """List the newest of them, and count all."""
