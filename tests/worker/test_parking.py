"""A session nobody can compact is parked after a few jobs, and comes back when it is mended."""

from __future__ import annotations

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, Events, chat, keys_of, push_all, settled
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

MARK = "moonflower-4711"


def test_a_poisoned_session_is_parked_reported_and_retried(
    client: ContextClient, server: redis.Redis, worker: WorkerProcess, store: EmbeddedRedis
) -> None:
    with Events(store.url) as events:
        client.open("s", SMALL.model_copy(update={"park_after": 2}))
        server.set(keys_of(client, "s").context, f'{{"summary": ["{MARK}"]}}')
        push_all(client, "s", chat(60))
        wait_until(client.parked, what="parked")
        [found] = client.parked()

        push_all(client, "s", chat(2))
        wait_until(lambda: client.info("s").counted_seq == 62)
        server.delete(keys_of(client, "s").context)
        wait_until(lambda: len(events.failures()) == 2, what="both failures told")
        client.retry("s")
        wait_until(lambda: settled(client, "s", turns=62))

    assert (found.session, found.failures, found.error) == ("s", 2, "CorruptContext")
    assert "event='parked'" in worker.output()
    assert client.info("s").version > 0
    assert client.info("s").failures == 0
    assert MARK not in worker.output()
