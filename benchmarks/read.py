"""A read against a bare GET and XRANGE of the same bytes."""

from __future__ import annotations

import redis

from benchmarks.timing import interleaved
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import namespace, session_id

ROUNDS = 1000


def run(server: EmbeddedRedis) -> list[str]:
    plain = redis.Redis.from_url(server.url)
    lines = ["turns in the tail   read p50   bare GET + XRANGE p50   ratio"]
    with ContextClient(server.url, namespace="bench", broker=SilentWaker()) as client:
        message = {"role": "user", "content": ("The quick brown fox jumps. " * 30)[:800]}
        for length in (5, 20, 50, 100):
            session = f"read-{length}"
            client.open(
                session, Policy(max_tokens=1_000_000), system_prompt="You are helpful. " * 50
            )
            client.push_many((session, message) for _ in range(length))
            keys = session_keys(namespace("bench"), session_id(session))
            plain.set(f"bare-{session}", "x" * 3000)

            def bare(log: str = keys.log, context: str = f"bare-{session}") -> None:
                plain.get(context)
                plain.xrange(log)

            ours, theirs = interleaved(
                lambda s=session: client.read(s),  # type: ignore[misc]
                bare,
                rounds=ROUNDS,
            )
            lines.append(
                f"{length:>17}   {ours.p50_us:>5.0f} µs   {theirs.p50_us:>18.0f} µs   "
                f"{ours.p50_us / theirs.p50_us:>5.2f}"
            )
    plain.close()
    return lines
