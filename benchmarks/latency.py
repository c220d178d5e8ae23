"""Time from a push until a worker has counted the turn, on an idle system."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.timing import Sample
from tests.processes import WorkerProcess
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

ROUNDS = 300


def run(server: EmbeddedRedis) -> list[str]:
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkerProcess(server.url, Path(folder), pool="prefork"),
        ContextClient(server.url, namespace="latency") as client,
    ):
        message = {"role": "user", "content": ("The quick brown fox jumps. " * 30)[:800]}
        for at in range(ROUNDS):
            session = f"s{at % 20}"
            start = time.perf_counter()
            seq = client.push(session, message).seq
            while client.info(session).counted_seq < seq:
                time.sleep(0.0002)
            found.append(time.perf_counter() - start)
            time.sleep(0.01)
    sample = Sample(sorted(found[20:]))
    return [
        "push to estimated, idle system",
        "   ".join(
            f"p{share} {sample.percentile_ms(share / 100):.1f} ms" for share in (50, 95, 99)
        ),
    ]
