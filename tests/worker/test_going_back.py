"""A real worker is stopped with a job at hand while Redis returns to an earlier state."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import redis

from tests.going_back import Cut
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, chat, keys_of, long_turns, until_settled
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


def test_a_worker_that_was_stopped_meanwhile_commits_nothing_of_what_redis_lost(
    store: EmbeddedRedis, tmp_path: Path
) -> None:
    env = {
        "TURNMILL_BROKER_URL": store.url,
        "TURNMILL_ARCHIVE_URL": f"sqlite:///{tmp_path}/archive.db",
    }
    with (
        Cut(tmp_path / "state") as state,
        WorkerProcess(state.url, tmp_path, name="stopped", env=env) as worker,
        ContextClient(state.url, namespace="back", broker=store.url) as client,
        redis.Redis.from_url(state.url) as server,
    ):
        first, new = chat(4, topic="first"), chat(120, topic="new")
        client.open("s", ROLLING)
        client.push_many(("s", each) for each in first)
        state.note()
        client.push_many(("s", each) for each in long_turns(8, kilobytes=80))
        wait_until(lambda: "needs-summary" in worker.output(), what="a summary to write")
        wait_until(lambda: server.exists(keys_of(client, "s").lease), what="a worker at it")
        time.sleep(0.3)  # it has read the session by then, and writes for longer than that
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            state.go_back()
            client.push_many(("s", each) for each in new)
        finally:
            os.kill(worker.pid, signal.SIGCONT)

        turns = len(first) + len(new)
        until_settled(client, "s", turns=turns)
        told = client.trajectory("s", timeout_s=30).turns

        assert [turn.messages[0] for turn in told] == [*first, *new]
        assert {turn.state for turn in told} == {"kept"}
        assert "event='stale'" in worker.output()
        assert not any("Parcel" in str(message) for message in client.read("s").messages)
