"""Which namespaces a sweep visits: those with work lately, and once in a while each that rests."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterable, Iterator

from turnmill.contract.keys import REGISTER_EVERY_S
from turnmill.contract.names import Namespace
from turnmill_worker.ports.sweep import SweepLists

__all__ = ["Visits"]

REST_AFTER_S = 60.0
"""A namespace with nothing listed for this long comes to rest."""

WATCH_S = 1.5 * REGISTER_EVERY_S
"""Visited for this long then: clients that had just registered it do not do so again at once."""

ROUND_S = 600.0
"""Every namespace at rest is visited once in this time, in case a hint was lost there."""

SEARCH_S = 0.05
"""How long a pass looks for namespaces that nobody lists: for millions of keys, a minute in all."""

EXPIRY_EVERY = 16
"""Sweeps between two looks for expired sessions; for namespaces at rest, rounds."""


class Visits:
    """Remembers which namespaces have been quiet, for one sweeper."""

    def __init__(
        self,
        lists: SweepLists,
        *,
        rest_after_s: float = REST_AFTER_S,
        round_s: float = ROUND_S,
    ) -> None:
        self._lists = lists
        self._rest_after_s = rest_after_s
        self._round_s = round_s
        self._quiet: dict[Namespace, float] = {}
        self._watched: dict[Namespace, float] = {}
        self._expiring: set[Namespace] = set()
        self._awake: set[Namespace] = set()
        self._rounds, self._cursor = 0, 0
        self._began, self._looked = -math.inf, time.monotonic()
        self._searched = -math.inf
        self._search: Iterator[list[Namespace]] | None = None

    def listed(self) -> list[Namespace]:
        """The namespaces visited now that have something listed, for now or for later."""
        now = time.monotonic()
        self._find(now)
        resting = self._resting(now)
        listed = self._lists.listed(sorted(self._awake | self._watched.keys() | resting))
        self._let_rest(listed, now)
        asleep = listed - self._awake
        self._lists.wake(asleep)
        self._awake |= asleep
        return sorted(listed)

    def drop_expired(self) -> None:
        """Drop expired sessions where there may be some, and empty namespaces."""
        looked_at = self._awake | self._expiring
        self._expiring = {name for name in looked_at if self._lists.drop_expired(name)}

    def _find(self, now: float) -> None:
        """Look who is awake, with those that clients announced, and those that nobody lists."""
        listed = set(self._lists.namespaces())
        if self._awake and not listed:
            self._searched, self._search = -math.inf, None  # the list was lost
        self._awake = listed
        new = self._lists.announced() | self._unlisted(now)
        self._lists.wake(new - self._awake)
        self._awake |= new

    def _unlisted(self, now: float) -> set[Namespace]:
        """Those found in this pass's part of a search through all keys, once in each round."""
        if self._search is None:
            if now - self._searched < self._round_s:
                return set()
            self._searched, self._search = now, self._lists.unlisted()
        search, self._search = self._search, None  # where it fails, the next round begins anew
        found: set[Namespace] = set()
        for names in search:
            found.update(names)
            if time.monotonic() - now >= SEARCH_S:
                self._search = search
                break
        return found

    def _let_rest(self, listed: Iterable[Namespace], now: float) -> None:
        """Let namespaces rest that were quiet for long, and watch them a little longer."""
        quiet = self._awake.difference(listed)
        self._quiet = {name: self._quiet.get(name, now) for name in quiet}
        tired = [name for name, at in self._quiet.items() if now - at >= self._rest_after_s]
        self._lists.rest(tired)
        kept = {n: at for n, at in self._watched.items() if n not in quiet and now - at < WATCH_S}
        self._watched = kept | dict.fromkeys(tired, now)

    def _resting(self, now: float) -> set[Namespace]:
        """The next ones of the round among the namespaces at rest."""
        since, self._looked = now - self._looked, now
        if self._cursor == 0:
            if now - self._began < self._round_s:
                return set()
            self._began = now
            self._rounds += 1
        self._cursor, found = self._lists.resting(self._cursor, share=since / self._round_s)
        # A few in each round, so that no round costs more than the others.
        self._expiring |= {n for n in found if not (self._rounds + _number(n)) % EXPIRY_EVERY}
        return set(found)


def _number(name: Namespace) -> int:
    return zlib.crc32(name.encode())
