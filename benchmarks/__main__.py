"""`make bench`: every benchmark against a redis-server of its own, as plain tables."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks import images, latency, push, read, serve, throughput
from benchmarks.steps import short as steps
from turnmill.connection.embedded import EmbeddedRedis

BENCHMARKS = {
    "push": push.run,
    "read": read.run,
    "images": images.run,
    "throughput": throughput.run,
    "latency": latency.run,
    "steps": steps.run,
    "serve": serve.run,
}


def main(names: list[str]) -> None:
    for name in names or list(BENCHMARKS):
        with (
            tempfile.TemporaryDirectory() as folder,
            EmbeddedRedis(Path(folder), durable=False) as server,
        ):
            print(f"\n{name}\n" + "\n".join(BENCHMARKS[name](server)))


if __name__ == "__main__":
    main(sys.argv[1:])
