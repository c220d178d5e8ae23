"""Gates in Redis: one per model at an endpoint, shared by all workers.

An open breaker keeps all workers from an endpoint that fails; budgets keep all workers
together under its rate limits.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, cast

import structlog

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import ENDPOINTS, endpoint_hash, endpoint_keys
from turnmill_worker.errors import CircuitOpen, RateLimited, SummarizerFailed, SummarizerUnavailable
from turnmill_worker.ports.protocols import place_of
from turnmill_worker.store.scripts import run, translated

log = structlog.get_logger()

MOST_FAILURES: Final = 5
"""Failures in a row that open a breaker."""

SLOW_SHARE: Final = 3
"""So many calls without an answer in time count as one failure: a slow model is not a dead one."""

MOST_REFUSALS: Final = 3
"""As many when all are refused: only a person can help then, but one may be a hiccup."""

OPEN_MS: Final = 30_000
LONGEST_OPEN_MS: Final = 300_000
"""How long it stays open: doubled each time a probe fails."""

SHUT_MS: Final = 60_000
"""How long it stays open when the endpoint refuses everybody."""

PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
"""How long all workers wait after a 429 without a time: doubled as long as 429s go on."""

PROBE_MARGIN_MS: Final = 5_000
"""How much longer a probe's right lasts than its time limit."""

MOST_WHY_CHARS: Final = 200

TTL_MS: Final = 24 * 3600 * 1000
SEEN_EVERY_S: Final = 600.0

FULL_S: Final = 0.5
"""When it is worth asking again for a place where all are taken."""

KEEP_SHARE: Final = 4
"""A place is kept anew when this part of its time is over."""

Kind = Literal["failed", "slow", "limited", "shut"]


class RedisGates:
    """The ``Gates`` port over a redis-py client that does not decode responses."""

    def __init__(
        self,
        client: Any,
        *,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        most_at_once: int = 0,
    ) -> None:
        self._redis = client
        self._most_at_once = most_at_once
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute

    def __call__(self, url: str, model: str) -> RedisGate:
        """The gate before this model at this endpoint."""
        return RedisGate(
            self._redis,
            url,
            model,
            requests_per_minute=self._requests_per_minute,
            tokens_per_minute=self._tokens_per_minute,
            most_at_once=self._most_at_once,
        )


class RedisGate:
    """The ``Gate`` port. Lets all calls through while Redis is away: a summary comes first."""

    def __init__(
        self,
        client: Any,
        url: str,
        model: str,
        *,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        most_at_once: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = client
        self._model = model
        self._place = place_of(url)
        self._hash = endpoint_hash(self._place, model)
        self._keys = endpoint_keys(self._hash)
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute
        # All models of an endpoint share its places.
        self._places = endpoint_keys(endpoint_hash(self._place, ""))
        self._most_at_once = most_at_once
        self._clock = clock
        self._listed_until = 0.0

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        """The round of a call that may be made now; None when Redis could not be asked.

        Raises:
            CircuitOpen, RateLimited: not now; say when it is worth asking again.
        """
        try:
            self._list()
            allowed, number, *why = self._run(
                "admit",
                place=self._place,
                model=self._model,
                requests_per_minute=self._requests_per_minute,
                tokens_per_minute=self._tokens_per_minute,
                tokens=tokens,
                probe_ms=int(within_s * 1000) + PROBE_MARGIN_MS,
                ttl_ms=TTL_MS,
            )
        except TurnmillError as error:
            log.warning("gate not asked", model=self._model, error=type(error).__name__)
            return None
        if allowed:
            return cast("int", number)
        kind = CircuitOpen if why == [b"open"] else RateLimited
        wait = number / 1000
        raise kind(f"{self._model}: {why[0].decode()} for {wait:.1f} s more", retry_after_s=wait)

    @contextmanager
    def place(self, *, within_s: float) -> Iterator[Callable[[], object]]:
        """A place among the calls under way, and what keeps it longer than ``within_s``.

        Raises:
            RateLimited: all are taken.
        """
        if not self._most_at_once:
            yield lambda: None
            return
        holder, lease_ms = uuid.uuid4().hex, int(within_s * 1000) + PROBE_MARGIN_MS
        if not self._take_place(holder, lease_ms):
            why = f"{self._model}: {self._most_at_once} calls are under way"
            raise RateLimited(why, retry_after_s=FULL_S)
        keep_at = self._clock() + within_s / KEEP_SHARE

        def keep() -> None:
            nonlocal keep_at
            if self._clock() >= keep_at:
                keep_at = self._clock() + within_s / KEEP_SHARE
                self._take_place(holder, lease_ms)

        try:
            yield keep
        finally:
            with suppress(TurnmillError), translated():
                self._redis.zrem(self._places.places, holder)

    def _take_place(self, holder: str, lease_ms: int) -> bool:
        keys, most = self._places, self._most_at_once
        try:
            took = run(self._redis, "take_place", keys, holder=holder, most=most, lease_ms=lease_ms)
            return bool(took)
        except TurnmillError as error:
            log.warning("gate not asked", model=self._model, error=type(error).__name__)
            return True

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        """Count an answer, or a refusal that is about the request alone."""
        if self._tell("gate_success", round_, estimated=estimated, used=used):
            log.info("breaker closed", model=self._model, place=self._place)

    def failed(
        self, round_: int | None, error: SummarizerUnavailable | SummarizerFailed, *, estimated: int
    ) -> None:
        """Count a failure of the endpoint."""
        # "At once", or a date that is past by our clock, is no answer to how long.
        asked_s = error.retry_after_s if isinstance(error, SummarizerUnavailable) else None
        wait_s = asked_s or None
        # Our own words: the model, a status, numbers; never what an endpoint said.
        why = str(error).removeprefix(f"{self._model}: ")[:MOST_WHY_CHARS]
        name = type(error).__name__
        log.warning("model call failed", model=self._model, error=name, why=why)
        opened_ms = self._tell(
            "gate_failure",
            round_,
            estimated=estimated,
            kind=_kind(error),
            error=name,
            why=why,
            retry_after_ms=-1 if wait_s is None else int(wait_s * 1000),
            most_failures=MOST_FAILURES,
            slow_share=SLOW_SHARE,
            most_refusals=MOST_REFUSALS,
            open_ms=OPEN_MS,
            longest_open_ms=LONGEST_OPEN_MS,
            shut_ms=SHUT_MS,
            pause_ms=PAUSE_MS,
            longest_pause_ms=LONGEST_PAUSE_MS,
        )
        if opened_ms:
            log.warning("breaker open", model=self._model, error=name, for_s=opened_ms / 1000)

    def _tell(self, script: str, round_: int | None, **args: str | int) -> int:
        if round_ is None:
            return 0
        try:
            return cast("int", self._run(script, round=round_, **args))
        except TurnmillError as error:
            log.warning("gate not told", model=self._model, error=type(error).__name__)
            return 0

    def _list(self) -> None:
        """List this gate for `turnmill doctor`; not at every call."""
        if self._clock() < self._listed_until:
            return
        with translated():
            now_ms = redis_now_ms(self._redis)
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.zadd(ENDPOINTS, {self._hash: now_ms})
                pipe.zremrangebyscore(ENDPOINTS, "-inf", now_ms - TTL_MS)
                pipe.execute()
        self._listed_until = self._clock() + SEEN_EVERY_S

    def _run(self, name: str, **args: str | int) -> Any:
        return run(self._redis, name, self._keys, **args)


def _kind(error: SummarizerUnavailable | SummarizerFailed) -> Kind:
    if isinstance(error, RateLimited):
        return "limited"
    if isinstance(error, SummarizerFailed):
        return "shut"
    return "slow" if error.is_slow else "failed"
