"""The model's process: a fake endpoint that answers after a while. Says how often it was asked."""

from __future__ import annotations

import sys

from turnmill.testing import FakeEndpoint


def main(latency_s: float) -> None:
    with FakeEndpoint(latency_s=latency_s) as endpoint:
        print(endpoint.base_url, flush=True)
        for _ in sys.stdin:
            print(len(endpoint.requests), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
