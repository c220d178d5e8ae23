"""A push against a bare EVALSHA of the same words, at growing session lengths."""

from __future__ import annotations

from functools import partial

import redis

from benchmarks.timing import interleaved
from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.transport import new_id

ROUNDS = 3000
LENGTHS = (10, 100, 1_000, 10_000)
BARE = """
redis.call('XADD', KEYS[2], '*', 'messages', ARGV[3], 'bound', ARGV[5])
return {1, 1, 0}
"""
"""What any queue of turns would do: append the payload, and nothing else."""


def run(server: EmbeddedRedis) -> list[str]:
    plain = redis.Redis.from_url(server.url)
    sha = plain.script_load(BARE)
    message = {"role": "user", "content": ("The quick brown fox jumps. " * 30)[:800]}
    with ContextClient(server.url, namespace="bench", broker=SilentWaker()) as client:
        for length in LENGTHS:
            client.push_many((f"push-{length}", message) for _ in range(length))
        words = [
            word.replace("push-", "bare-") if isinstance(word, str) else word
            for word in client._commands.push("push-10", message, new_id=new_id).call.words
        ]
        pushes = [partial(client.push, f"push-{length}", message) for length in LENGTHS]
        samples = interleaved(
            partial(plain.execute_command, "EVALSHA", sha, *words), *pushes, rounds=ROUNDS
        )
    plain.close()
    bare, *ours = (sample.p50_us for sample in samples)
    lines = ["turns in session   push p50   bare EVALSHA p50   ratio   against 10 turns"]
    lines += [
        f"{length:>16,}   {p50:>5.0f} µs   {bare:>13.0f} µs   {p50 / bare:>5.2f}   "
        f"{p50 / ours[0]:>16.2f}"
        for length, p50 in zip(LENGTHS, ours, strict=True)
    ]
    return lines
