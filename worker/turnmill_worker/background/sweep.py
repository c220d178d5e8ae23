"""Repairs lost hints: hints again the sessions that backlog and due lists show were missed.

Every worker process runs a thread for it; a lease lets one of them sweep at a time. ``Visits`` says
which namespaces a sweep visits, ``Troubles`` tells of those whose own lists are damaged.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import structlog

from turnmill.contract import jobs
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import REGISTER_EVERY_S, shard_of
from turnmill.contract.names import Namespace
from turnmill_worker.background.quotas import QuotaWatch
from turnmill_worker.ports.protocols import Hints
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.leases import RedisSweepLease
from turnmill_worker.store.namespaces import Trouble
from turnmill_worker.store.sweep_lists import RedisSweepLists

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
        lists: RedisSweepLists,
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


log = structlog.get_logger()

KEPT_S = 60.0
"""A trouble is told for this long, and logged once in this time."""

TELL_EVERY_S = 10.0


class Troubles:
    """What went wrong in namespaces within the last minute, for one sweeper."""

    def __init__(self, lists: RedisSweepLists) -> None:
        self._lists = lists
        self._known: dict[Namespace, Trouble] = {}
        self._since: dict[Namespace, float] = {}
        self._told_s = 0.0

    def tell(self) -> None:
        """Log what is new, and say in Redis what is wrong."""
        now_s = time.monotonic()
        before = len(self._known)
        for name in [name for name, at in self._since.items() if now_s - at >= KEPT_S]:
            del self._known[name], self._since[name]
        is_new = False
        for name, trouble in self._lists.take_troubles().items():
            known = self._known.setdefault(name, Trouble())
            known.why = trouble.why or known.why
            known.errors += trouble.errors
            known.dropped += trouble.dropped
            if name not in self._since:
                self._since[name], is_new = now_s, True
                log.warning("namespace damaged", namespace=name, **_told(trouble))
        changed = is_new or len(self._known) != before
        if changed or (self._known and now_s - self._told_s >= TELL_EVERY_S):
            self._lists.tell(self._known)
            self._told_s = now_s


def _told(trouble: Trouble) -> dict[str, object]:
    return {"error": trouble.why, "errors": trouble.errors, "dropped": trouble.dropped}


MOST = 1000
"""Hints per list and sweep."""

LONGEST_PAUSE_S = 3600.0
"""The longest pause between two hints of a session, however many messages wait."""

CROWDED = 100
CROWDED_S = 60.0
"""More of a pause while so many messages wait, two for each session: most find nothing to do."""

REMEMBERED_S = 60.0
"""What was hinted is known so long, also by a worker that sweeps now and then."""

ARCHIVE_EVERY = 3
"""Sweeps between two looks for turns that wait for the archive, and for sessions to forget there.

One job stores all that waits in a namespace; nobody waits for the archive, so it stores many
sessions' commits at once, a few seconds after the first of them.
"""

ELSEWHERE_EVERY = 10 * ARCHIVE_EVERY
"""The same, by a worker that has no archive itself; others may have one."""

REST = 3
"""The pause after a pass is at least this many times its work: a quarter of a core is enough."""


class Sweeper:
    """One pass over the namespaces' lists; idle sessions and namespaces at rest cost nothing."""

    def __init__(
        self,
        lists: RedisSweepLists,
        hints: Hints,
        *,
        stale_after_s: float,
        archive: bool = True,
        visits: Visits | None = None,
        watch: QuotaWatch | None = None,
    ) -> None:
        self._lists = lists
        self._visits = visits or Visits(lists)
        self._troubles = Troubles(lists)
        self._watch = watch
        self._archive = archive
        self._estimates = _Repeater(hints, jobs.ESTIMATE, first_pause_s=2 * stale_after_s)
        self._compacts = _Repeater(hints, jobs.COMPACT, first_pause_s=2 * stale_after_s)
        self._archives = _Repeater(hints, jobs.ARCHIVE, first_pause_s=2 * stale_after_s)
        self._compares = _Repeater(hints, jobs.ARCHIVE, first_pause_s=2 * stale_after_s)
        self._forgets = _Repeater(hints, jobs.FORGET, first_pause_s=2 * stale_after_s)
        self._stale_after_ms = int(stale_after_s * 1000)
        self._passes = 0

    def run(self) -> int:
        """Hint what was missed in every namespace; returns how many hints were sent."""
        self._passes += 1
        lists, names = self._lists, self._visits.listed()
        if self._passes % EXPIRY_EVERY == 0:
            self._visits.drop_expired()
        now_ms = lists.now_ms() if names else 0
        stale_ms = now_ms - self._stale_after_ms
        backlog, due = lists.missed(names, stale_ms=stale_ms, now_ms=now_ms, most=MOST)
        # A session handed on to a summarizer is due again too, until that job takes its lease.
        sent = self._estimates.send(_one_of_each_shard(backlog), (jobs.ESTIMATE,))
        sent += self._compacts.send(due, (jobs.COMPACT, jobs.SUMMARIZE))
        sent += self._compares.send(lists.uncompared(), (jobs.ARCHIVE,))
        if self._passes % ARCHIVE_EVERY == 0:
            here = self._archive or self._passes % ELSEWHERE_EVERY == 0
            oldest = lists.unarchived(names) if here else []
            sent += self._archives.send(oldest, (jobs.ARCHIVE,))
            gone = lists.forgotten(names, stale_ms=stale_ms, most=MOST)
            sent += self._forgets.send(gone, (jobs.FORGET,))
        if self._watch is not None:
            self._watch.run(names)
        self._troubles.tell()
        if sent:
            log.info("swept", backlog=len(backlog), due=len(due), hints=sent)
        return sent


def _one_of_each_shard(refs: Sequence[SessionRef]) -> list[SessionRef]:
    """The first session of each shard: its job counts them all."""
    first: dict[tuple[Namespace, int], SessionRef] = {}
    for ref in refs:
        first.setdefault((ref.namespace, shard_of(ref.session)), ref)
    return list(first.values())


class _Repeater:
    """Hints sessions that stay on a list, ever more rarely while messages wait in the queues.

    Behind a slow or missing consumer hints are late, not lost: repeating them at a steady rate
    would fill the broker and then the workers' time.
    """

    def __init__(self, hints: Hints, task: str, *, first_pause_s: float) -> None:
        self._hints = hints
        self._task = task
        self._first_pause_s = first_pause_s
        self._next: dict[SessionRef, tuple[float, float]] = {}

    def send(self, refs: Sequence[SessionRef], queues: Sequence[str]) -> int:
        """Hint those whose pause is over, or all when nothing waits; returns how many."""
        now = time.monotonic()
        # A look puts a session off for some seconds: it comes back to the list as the same one.
        known = self._next.items()
        paused = self._next = {ref: each for ref, each in known if sum(each) + REMEMBERED_S > now}
        if not refs:
            return 0
        waiting = sum(self._hints.waiting(queue) for queue in queues)
        idle, crowded = not waiting, waiting >= max(CROWDED, 2 * len(refs))
        until = now - CROWDED_S if crowded else now
        ready = [ref for ref in refs if idle or ref not in paused or paused[ref][0] <= until]
        sent = 0
        for ref in ready[:MOST]:
            if not self._hints.send(self._task, ref):
                break  # the broker is down: the next sweep tries again
            _, pause = paused.get(ref, (now, self._first_pause_s / 2))
            pause = self._first_pause_s if idle else min(pause * 2, LONGEST_PAUSE_S)
            paused[ref] = (now + pause, pause)
            sent += 1
        return sent


class SweepThread:
    """Sweeps every ``interval_s``, as long as no other worker does.

    A pass costs one command per namespace that had work lately, and some 130 more where there is
    some now: with very many of those it pauses for longer.
    """

    def __init__(self, sweeper: Sweeper, lease: RedisSweepLease, *, interval_s: float) -> None:
        self._sweeper = sweeper
        self._lease = lease
        self._interval_s = interval_s
        self._pause_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnmill-sweep", daemon=True)

    def start(self) -> None:
        """Begin sweeping."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass under way, and let another worker take over at once."""
        self._ended.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            try:
                # The same worker sweeps as long as it lives: it remembers what it has hinted.
                if self._lease.take(hold_s=3 * self._pause_s):
                    # Its own work: with a slow Redis a dead worker would hold the lease for long.
                    began = time.thread_time()
                    self._sweeper.run()
                    self._rest(time.thread_time() - began)
                else:
                    self._pause_s = self._interval_s
            except Exception as error:  # noqa: BLE001 - Redis or the broker is down; try again
                log.warning("sweep failed", error=type(error).__name__)
        with suppress(TurnmillError):
            self._lease.give_up()

    def _rest(self, took_s: float) -> None:
        """Pause until the next pass; nobody else begins one meanwhile."""
        self._pause_s = max(self._interval_s, REST * took_s)
        if self._pause_s > self._interval_s:
            self._lease.keep(hold_s=3 * self._pause_s)
