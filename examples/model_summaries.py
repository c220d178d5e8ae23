"""Summaries by a model, and what happens when the model goes away.

Run it with ``python examples/model_summaries.py``. It works offline and takes about ten seconds.
A fake endpoint stands in for the model. To use a real endpoint, put its URL and key into the
worker's environment; nothing else changes.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.testing import FakeEndpoint

POLICY = Policy(max_tokens=2048, summarizer="openai", model="gpt-5-mini", model_attempts=0)
WORDS = "Nobody signed for it, so I asked the carrier where it went and noted the answer. " * 5


def talk(client: ContextClient, first: int) -> None:
    """Push 15 questions and answers, and wait for a compaction. An agent would not wait."""
    before = client.info("agent-7").compactions
    for order in range(first, first + 15):
        client.push("agent-7", {"role": "user", "content": f"Where is order #W{order}?"})
        client.push("agent-7", {"role": "assistant", "content": f"#W{order} has left. {WORDS}"})
    deadline = time.monotonic() + 60
    while client.info("agent-7").compactions == before and time.monotonic() < deadline:
        time.sleep(0.1)


def main(folder: str) -> None:
    """Print who wrote each summary, what it cost, and what the agent reads."""
    with EmbeddedRedis(Path(folder)) as server, ExitStack() as stack:
        client = stack.enter_context(ContextClient(server.url))
        client.open("agent-7", POLICY)
        with FakeEndpoint(latency_s=0.3) as model:
            env = {"TURNMILL_REDIS_URL": server.url, "TURNMILL_DATA_DIR": folder}
            env |= {"TURNMILL_MODEL_URL": model.base_url, "TURNMILL_MODEL_KEY": "none"}
            celery = (sys.executable, "-m", "celery", "-q", "-A", "turnmill_worker.app", "worker")
            worker = subprocess.Popen(celery, env={**os.environ, **env})
            stack.callback(worker.wait)
            stack.callback(worker.terminate)
            talk(client, 2378100)
        print("The model is gone now.")
        talk(client, 2378200)
        for each in client.trajectory("agent-7", timeout_s=30).compactions:
            record = each.record
            print(f"Summary {record.version} is by {record.model}, ${record.cost_usd:.4f}")
        context = client.read("agent-7")
        print(f"The agent reads {context.tokens:,} of at most {POLICY.max_tokens:,} tokens.")
        print("Its last order is there:", "#W2378214" in str(context.messages[-1]["content"]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
