"""The numbers that metrics have of all workers together, read from Redis at a bounded cost.

One worker reads them, and leaves them for the others for a while.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.context import Usage
from turnmill.contract.correction import Correction
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import (
    ENDPOINTS,
    FLEET,
    FLEET_IDLE,
    NAMESPACES,
    RESTING,
    SHARDS,
    endpoint_keys,
    in_all_shards,
    session_keys,
)
from turnmill.contract.names import Namespace
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.sealing import text_of
from turnmill_worker import telemetry
from turnmill_worker.store.namespaces import RedisRegistry, session_named
from turnmill_worker.store.scripts import translated

KEPT_MS: Final = 5_000
"""How long what was read is good enough, at least."""

REST: Final = 20
"""It is kept for so many times what reading it took."""

MOST_NAMESPACES: Final = 1_000
MOST_LOOKED_AT: Final = 4_096
"""Sessions whose tokens are compared with their limits, of those that wait for a compaction and of
all; in a larger fleet they stand for the others."""

MOST_IDLE: Final = 100
"""Namespaces in whose lists nothing stands of which one look reads the sessions again: what is over
a limit there stays so for long. Of others it is as a look before this one found it."""

IDLE_KEPT_MS: Final = 3_600_000

LISTS: Final = ("backlog", "due", "parked", "unarchived")
MORE: Final = ("later", "over_soft", "over_hard")
AGES: Final = {
    "backlog": telemetry.BACKLOG,
    "due": telemetry.DUE,
    "unarchived": telemetry.ARCHIVE,
}
"""By list, for how long the first session in it has waited."""

_OF_SESSION: Final = (
    *("policy", "ratios", "system_tokens", "tools_tokens", "context_tokens"),
    *("tail_tokens", "pending"),
)


class Value(NamedTuple):
    """A gauge's value."""

    gauge: str
    labels: dict[str, str]
    value: float


class _Lists(NamedTuple):
    """How many sessions are in a namespace's lists, for how long, and some of them.

    Attributes:
        waiting: the first of those that are due or parked.
        sessions: how many there are.
        some: any of them.
    """

    states: Counter[str]
    oldest_s: dict[str, float]
    waiting: list[bytes]
    sessions: int
    some: list[bytes]


class RedisFleet(RedisRegistry):
    """Reads the gauges of ``telemetry``; ``depth`` tells how many messages wait in a queue."""

    def __init__(
        self, client: Any, depth: Callable[[str], int], queues: Sequence[str], *, archive: bool
    ) -> None:
        """Without an ``archive`` covered turns wait for none."""
        super().__init__(client)
        self._archive = archive
        self._depth = depth
        self._queues = queues
        self._looked_s, self._seen = -math.inf, list[Value]()

    def look(self) -> list[Value]:
        """All gauges as they are, or were some seconds ago; without Redis, that it is away."""
        if time.monotonic() - self._looked_s > 1:  # each gauge asks
            self._seen = self._kept()
            self._looked_s = time.monotonic()
        return self._seen

    def lists(self) -> list[Value]:
        """Sessions by state, and how long the oldest of them have waited, as of now."""
        with translated():
            return list(self._lists(keeps=False))

    def _kept(self) -> list[Value]:
        try:
            with translated():
                kept = self._redis.get(FLEET)
            return [Value(*each) for each in json.loads(kept)] if kept else self._read()
        except TurnmillError:
            return [Value(telemetry.REDIS.name, {}, 0)]

    def _read(self) -> list[Value]:
        began = time.monotonic()
        with translated():
            found = [Value(telemetry.REDIS.name, {}, 1), self._memory(), *self._breakers()]
            found += self._lists(keeps=True)
        found += [Value(telemetry.QUEUES.name, {"queue": q}, self._depth(q)) for q in self._queues]
        kept_ms = max(KEPT_MS, int(REST * 1000 * (time.monotonic() - began)))
        with suppress(TurnmillError), translated():  # it may be full
            self._redis.set(FLEET, json.dumps(found), px=kept_ms)
        return found

    def _memory(self) -> Value:
        listing = getattr(self._redis, "servers", None)
        servers = [each for _, each in listing()] if listing else [self._redis]
        infos = [server.info("memory") for server in servers]
        shares = [each["used_memory"] / (each["maxmemory"] or float("inf")) for each in infos]
        return Value(telemetry.MEMORY.name, {}, max(shares))

    def _breakers(self) -> Iterator[Value]:
        with self._redis.pipeline(transaction=False) as pipe:
            for name in self._redis.zrange(ENDPOINTS, 0, -1):
                pipe.hmget(endpoint_keys(name.decode()).gate, "model", "place", "open_until")
            gates = pipe.execute(raise_on_error=False)
        for gate in gates:
            model, place, open_until = gate if isinstance(gate, list) else (None, None, None)
            if model is not None:
                labels = {"model": model.decode(), "endpoint": (place or b"").decode()}
                yield Value(telemetry.BREAKER.name, labels, int(open_until is not None))

    def _lists(self, *, keeps: bool) -> Iterator[Value]:
        """What stands in the namespaces' lists; those that may not be told apart are one."""
        busy, resting = (self._named(key, self._members(key)) for key in (NAMESPACES, RESTING))
        names = list(dict.fromkeys([*busy, *resting]))
        seen = names[:MOST_NAMESPACES]
        for counted, number in (("true", len(seen)), ("false", len(names) - len(seen))):
            yield Value(telemetry.NAMESPACES.name, {"counted": counted}, number)
        lists = self._with_any(seen)
        told: dict[str, list[_Lists]] = defaultdict(list, {"": []})
        for name, found in self._of({n: kinds for n, kinds in lists.items() if kinds}).items():
            told[telemetry.label_of(name)].append(found)
        idle = defaultdict[str, Counter[str]](Counter)
        quiet = [name for name, kinds in lists.items() if not kinds]
        for name, over in self._idle(quiet, keeps=keeps).items():
            idle[telemetry.label_of(name)].update(over)
        for label in told | idle:
            some = told[label]
            labels = {"namespace": label} if label else {}
            states = sum((each.states for each in some), idle[label])
            for state in (*LISTS[: None if self._archive else -1], *MORE):
                of = {"state": state, **labels}
                yield Value(telemetry.SESSIONS.name, of, states[state])
            for kind, gauge in AGES.items():
                if self._archive or gauge is not telemetry.ARCHIVE:
                    oldest_s = max((each.oldest_s[kind] for each in some), default=0.0)
                    yield Value(gauge.name, labels, oldest_s)

    def _with_any(self, names: Sequence[Namespace]) -> dict[Namespace, Sequence[str]]:
        """The namespaces that have sessions, each with the lists to look at."""
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.exists(*in_all_shards(name, *LISTS))
                pipe.exists(*in_all_shards(name, "index"))
            replies = pipe.execute(raise_on_error=False)
        numbers = [int(each) if isinstance(each, int | float) else 0 for each in replies]
        found = zip(names, numbers[::2], numbers[1::2], strict=True)
        return {name: LISTS if lists else () for name, lists, index in found if lists or index}

    def _idle(
        self, names: Sequence[Namespace], *, keeps: bool
    ) -> dict[Namespace, Mapping[str, int]]:
        """Sessions over their limits in namespaces where nothing waits."""
        asked = set(names)
        kept = json.loads(self._redis.get(FLEET_IDLE) or "{}")
        found = {Namespace(name): over for name, over in kept.items() if name in asked}
        again = [*(name for name in names if name not in found), *islice(found, MOST_IDLE)]
        for name, lists in self._of(dict.fromkeys(again, ())).items():
            found.pop(name, None)  # it is the newest now
            found[name] = {state: number for state, number in lists.states.items() if number}
        if keeps:
            with suppress(TurnmillError), translated():  # it may be full
                self._redis.set(FLEET_IDLE, json.dumps(found), px=IDLE_KEPT_MS)
        return found

    def _of(self, names: Mapping[Namespace, Sequence[str]]) -> dict[Namespace, _Lists]:
        found, now_ms, room = {}, redis_now_ms(self._redis), MOST_LOOKED_AT
        for left, (name, kinds) in zip(range(len(names), 0, -1), names.items(), strict=True):
            lists = self._in(name, kinds, now_ms)
            share = math.ceil(room / left)
            # Any: the first would be those of the first shards, the same ones again and again.
            some = random.sample(lists.some, min(share, len(lists.some)))
            waiting = lists.waiting[:share]
            room -= max(len(waiting), len(some))
            lists.states.update(self._over(name, lists, waiting, some))
            turn_s = self._turn_s(name, waiting, now_ms) if kinds else 0.0
            lists.oldest_s["due"] = max(lists.oldest_s["due"], turn_s)
            found[name] = lists
        return found

    def _in(self, name: Namespace, kinds: Sequence[str], now_ms: int) -> _Lists:
        states, since, waiting = Counter[str](), dict.fromkeys(AGES, now_ms), []
        a_shard = MOST_LOOKED_AT // SHARDS
        with self._redis.pipeline(transaction=False) as pipe:
            keys = [(kind, key) for kind in kinds for key in in_all_shards(name, kind)]
            for _, key in keys:
                pipe.zcount(key, "-inf", now_ms)
                pipe.zcard(key)
                pipe.zrange(key, 0, a_shard - 1, withscores=True)
            for key in in_all_shards(name, "index"):
                pipe.zcard(key)
                pipe.zrandmember(key, a_shard)
            replies = pipe.execute(raise_on_error=False)
        for at, (kind, _) in enumerate(keys):
            now, every, first = replies[3 * at : 3 * at + 3]
            if not isinstance(now, int) or not first:  # or what stands there is no list
                continue
            states[kind] += now
            states["later"] += every - now if kind == "due" else 0
            if kind in AGES:
                since[kind] = min(since[kind], first[0][1])
            if kind in ("due", "parked"):
                waiting += [member for member, _ in first]
        oldest_s = {kind: (now_ms - at) / 1000 for kind, at in since.items()}
        listed = replies[3 * len(keys) :]
        sessions = sum(each for each in listed[::2] if isinstance(each, int))
        some = [member for each in listed[1::2] if isinstance(each, list) for member in each]
        return _Lists(states, oldest_s, waiting, sessions, some)

    def _over(
        self, name: Namespace, lists: _Lists, waiting: Sequence[bytes], some: Sequence[bytes]
    ) -> dict[str, int]:
        """How many are over their limits.

        Those that wait are most likely to be, and stand for all that wait; any others for the rest,
        of which few are: their compaction was put off, or nobody counted them yet.
        """
        every = sum(lists.states[kind] for kind in ("due", "later", "parked"))
        over = defaultdict[str, float](float)
        for waits, members, of in ((True, waiting, every), (False, some, lists.sessions)):
            for state, number in self._states(name, members, waits=waits).items():
                over[state] += number * of / len(members)
        hard = round(over["hard"])
        return {"over_hard": hard, "over_soft": hard + round(over["soft"])}

    def _turn_s(self, name: Namespace, waiting: Sequence[bytes], now_ms: int) -> float:
        """For how long the first was handed on that nobody took: each hint has it due anew."""
        with self._redis.pipeline(transaction=False) as pipe:
            for session in filter(None, map(session_named, waiting)):
                keys = session_keys(name, session)
                pipe.hmget(keys.meta, "waits", "waits_at")
                pipe.exists(keys.lease)
            replies = iter(pipe.execute(raise_on_error=False))
        oldest = now_ms
        for found, is_taken in zip(replies, replies, strict=True):
            if isinstance(found, list) and found[0] == b"turn" and is_taken == 0:
                with suppress(TypeError, ValueError):  # no worker wrote that
                    oldest = min(oldest, int(found[1]))
        return (now_ms - oldest) / 1000

    def _states(self, name: Namespace, members: Sequence[bytes], *, waits: bool) -> Counter[str]:
        """The limits that sessions are over, of those which are due or parked, or are not."""
        with self._redis.pipeline(transaction=False) as pipe:
            for session in filter(None, map(session_named, members)):
                keys = session_keys(name, session)
                pipe.hmget(keys.meta, *_OF_SESSION)
                pipe.zscore(keys.due, session)
                pipe.zscore(keys.parked, session)
            replies = iter(pipe.execute(raise_on_error=False))
        return Counter(
            _state(*meta)
            for meta, *at in zip(replies, replies, replies, strict=True)
            if isinstance(meta, list) and (at != [None, None]) == waits
        )


def _state(policy: bytes | None, ratios: bytes | None, *tokens: bytes | None) -> str:
    """The limit that a session is over, as ``ContextInfo`` has it."""
    try:
        system, tools, context, tail, pending = (int(each or 0) for each in tokens)
        known = _policy(policy or b"")
        correction = Correction.stored(text_of(ratios), known.token_ratio)
    except (TurnmillError, ValueError):  # the session's next job says so
        return ""
    counted = Usage(system=system + tools, summary=context, tail=tail, pending=pending)
    usage = correction.usage(counted)
    return known.limits(usage.system, 1.0).over(usage)


@lru_cache(maxsize=256)
def _policy(body: bytes) -> Policy:
    return stored_policy(body) if body else Policy()
