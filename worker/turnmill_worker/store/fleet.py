"""The numbers that metrics have of all workers together, read from Redis at a bounded cost.

One worker reads them, and leaves them for the others for a while.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
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
MOST_LOOKED_AT: Final = 512
"""Sessions whose tokens are compared with their limits; those of more stand for the others."""

LISTS: Final = ("backlog", "due", "parked", "unarchived")
MORE: Final = ("later", "over_soft", "over_hard")
AGES: Final = {
    "backlog": telemetry.BACKLOG,
    "due": telemetry.DUE,
    "unarchived": telemetry.ARCHIVE,
}
"""By list, for how long the first session in it has waited."""


class Value(NamedTuple):
    """A gauge's value."""

    gauge: str
    labels: dict[str, str]
    value: float


class _Lists(NamedTuple):
    """How many sessions are in a namespace's lists, for how long, and the first of them."""

    states: Counter[str]
    oldest_s: dict[str, float]
    sessions: list[bytes]


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
        """Sessions by state, and how long the oldest of them have waited, read anew for one."""
        with translated():
            return list(self._lists())

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
            found += self._lists()
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

    def _lists(self) -> Iterator[Value]:
        """What stands in the namespaces' lists; those that may not be told apart are one."""
        busy, resting = (self._named(key, self._members(key)) for key in (NAMESPACES, RESTING))
        names = list(dict.fromkeys([*busy, *resting]))
        seen = names[:MOST_NAMESPACES]
        for counted, number in (("true", len(seen)), ("false", len(names) - len(seen))):
            yield Value(telemetry.NAMESPACES.name, {"counted": counted}, number)
        told: dict[str, list[_Lists]] = defaultdict(list, {"": []})
        for name, found in self._of(self._with_any(seen)).items():
            told[telemetry.label_of(name)].append(found)
        for label, some in told.items():
            labels = {"namespace": label} if label else {}
            states = sum((each.states for each in some), Counter[str]())
            for state in (*LISTS[: None if self._archive else -1], *MORE):
                of = {"state": state, **labels}
                yield Value(telemetry.SESSIONS.name, of, states[state])
            for kind, gauge in AGES.items():
                if self._archive or gauge is not telemetry.ARCHIVE:
                    oldest_s = max((each.oldest_s[kind] for each in some), default=0.0)
                    yield Value(gauge.name, labels, oldest_s)

    def _with_any(self, names: Sequence[Namespace]) -> Iterator[Namespace]:
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.exists(*in_all_shards(name, *LISTS))
            replies = pipe.execute(raise_on_error=False)
        yield from (n for n, at in zip(names, replies, strict=True) if at and at == int(at))

    def _of(self, names: Iterator[Namespace]) -> dict[Namespace, _Lists]:
        found, now_ms, room = {}, redis_now_ms(self._redis), MOST_LOOKED_AT
        for name in names:
            lists = self._in(name, now_ms)
            lists.states.update(self._over(name, lists, room))
            room = max(room - len(lists.sessions), 0)
            found[name] = lists
        return found

    def _in(self, name: Namespace, now_ms: int) -> _Lists:
        states, since, sessions = Counter[str](), dict.fromkeys(AGES, now_ms), []
        with self._redis.pipeline(transaction=False) as pipe:
            keys = [(kind, key) for kind in LISTS for key in in_all_shards(name, kind)]
            for _, key in keys:
                pipe.zcount(key, "-inf", now_ms)
                pipe.zcard(key)
                pipe.zrange(key, 0, MOST_LOOKED_AT // SHARDS - 1, withscores=True)
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
                sessions += [member for member, _ in first]
        return _Lists(states, {kind: (now_ms - at) / 1000 for kind, at in since.items()}, sessions)

    def _over(self, name: Namespace, lists: _Lists, room: int) -> dict[str, int]:
        """How many are over their limits: only those that are due or parked can be for long."""
        some = list(islice(filter(None, map(session_named, lists.sessions)), room))
        fields = (
            "policy",
            "ratios",
            "system_tokens",
            "tools_tokens",
            "context_tokens",
            "tail_tokens",
        )
        with self._redis.pipeline(transaction=False) as pipe:
            for session in some:
                pipe.hmget(session_keys(name, session).meta, *fields)
            metas = pipe.execute(raise_on_error=False)
        over = Counter(_state(*meta) for meta in metas if isinstance(meta, list))
        every = sum(lists.states[kind] for kind in ("due", "later", "parked"))
        share = every / len(some) if some else 0.0
        hard = round(over["hard"] * share)
        return {"over_hard": hard, "over_soft": hard + round(over["soft"] * share)}


def _state(policy: bytes | None, ratios: bytes | None, *tokens: bytes | None) -> str:
    """The limit that a session is over."""
    try:
        system, tools, context, tail = (int(each or 0) for each in tokens)
        usage = Usage(system=system + tools, summary=context, tail=tail)
        known = _policy(policy or b"")
        ratio = Correction.stored(text_of(ratios), known.token_ratio).ratio
    except (TurnmillError, ValueError):  # the session's next job says so
        return ""
    limits = known.limits(usage.system, ratio)
    return "hard" if usage.total > limits.hard else "soft" if usage.total > limits.soft else ""


@lru_cache(maxsize=256)
def _policy(body: bytes) -> Policy:
    return stored_policy(body) if body else Policy()
