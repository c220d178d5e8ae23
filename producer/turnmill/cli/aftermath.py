"""After the last step: wait for the workers, then look at what is stored, and clean up."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import redis

from turnmill import ContextClient, Policy, SilentWaker
from turnmill.cli.checking import TokenCache, check_store, fingerprint
from turnmill.cli.replaying import Run
from turnmill.contract.keys import NAMESPACES, session_keys
from turnmill.contract.names import Namespace, SessionId

__all__ = ["Aftermath", "connect", "inspect", "settle"]

_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Where the sessions of a replay are stored."""

    redis: redis.Redis
    client: ContextClient
    namespace: Namespace

    def forget(self, names: Sequence[str], *, whole_namespace: bool) -> None:
        """Remove the sessions; and the namespace from the sweep's rounds when it was theirs."""
        for name in names:
            self.client.forget(name)
        if whole_namespace:
            self.redis.srem(NAMESPACES, self.namespace)


@contextmanager
def connect(url: str, namespace: str) -> Iterator[Aftermath]:
    """Connections for looking at a namespace, closed after the block."""
    with (
        redis.Redis.from_url(url) as client,
        ContextClient(url, namespace=namespace, broker=SilentWaker()) as reader,
    ):
        yield Aftermath(client, reader, Namespace(namespace))


def settle(store: Aftermath, names: Sequence[str], *, within_s: float) -> int:
    """Wait until no session waits for a worker; returns how many still do after ``within_s``."""
    deadline = time.monotonic() + within_s
    waiting = _waiting(store, names)
    while waiting and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        waiting = _waiting(store, waiting)
    return len(waiting)


def _waiting(store: Aftermath, names: Sequence[str]) -> list[str]:
    # A session can go from one list to the other, so both are asked in one transaction.
    found = []
    for name in names:
        keys = session_keys(store.namespace, SessionId(name))
        with store.redis.pipeline(transaction=True) as pipe:
            pipe.zscore(keys.backlog, name)
            pipe.zscore(keys.due, name)
            if any(score is not None for score in pipe.execute()):
                found.append(name)
    return found


def inspect(store: Aftermath, run: Run, policy: Policy, count: TokenCache) -> Counter[str]:
    """Read and check a session a last time, and its stored turns; returns commits by strategy."""
    keys = session_keys(store.namespace, SessionId(run.agent.name))
    with store.redis.pipeline(transaction=True) as pipe:
        pipe.xrange(keys.log)
        pipe.xrange(keys.covered)
        pipe.hget(keys.meta, "watermark")
        pipe.xrange(keys.compactions)
        log, covered, watermark, compactions = pipe.execute()
    run.faults += check_store(
        {seq: fingerprint([message]) for seq, message in run.transcript.turns.items()},
        [(_seq(entry), _body(entry)) for entry in log],
        [(_seq(entry), _body(entry)) for entry in covered],
        watermark=int(watermark or 0),
    )
    run.take(store.client.read(run.agent.name), hard_limit=policy.hard_limit, count=count)
    return Counter(json.loads(fields[b"record"])["strategy"] for _, fields in compactions)


def _seq(entry: tuple[bytes, object]) -> int:
    return int(entry[0].partition(b"-")[0])


def _body(entry: tuple[bytes, dict[bytes, bytes]]) -> bytes:
    return fingerprint(json.loads(entry[1][b"messages"]))
