"""The state store may crash and come back: clients and workers reconnect, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, JsonMessage, chat, settled, stored
from turnmill import ContextClient, StoreUnavailable
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


def _push_stubbornly(client: ContextClient, session: str, turns: list[JsonMessage]) -> None:
    """Push each turn under an id until Redis has acknowledged it."""
    for at, turn in enumerate(turns):
        while True:
            try:
                client.push(session, turn, turn_id=f"{session}-{at}")
            except StoreUnavailable:
                continue
            break


@pytest.mark.parametrize("shared", [True, False], ids=["broker too", "broker apart"])
def test_a_killed_and_restarted_store_loses_no_acknowledged_turn(
    shared: bool,  # noqa: FBT001
    namespace: str,
    new_server: Callable[..., EmbeddedRedis],
    tmp_path: Path,
) -> None:
    store = new_server(durable=True)
    broker = store if shared else new_server()
    sessions = {f"s{n}": chat(300, topic=f"parcel of s{n}") for n in range(4)}
    with (
        redis.Redis.from_url(store.url) as server,
        ContextClient(store.url, namespace=namespace, broker=broker.url, timeout_s=1) as client,
        WorkerProcess(store.url, tmp_path, env={"TURNMILL_BROKER_URL": broker.url}) as worker,
    ):
        server.config_set("appendfsync", "always")
        for session in sessions:
            client.open(session, SMALL)
        threads = [
            threading.Thread(target=_push_stubbornly, args=(client, session, turns))
            for session, turns in sessions.items()
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: client.info("s0").last_seq >= 60)

        assert client.info("s0").last_seq < 300
        store.kill()
        store.start()
        for thread in threads:
            thread.join(timeout=60)

        for session, turns in sessions.items():
            wait_until(lambda: settled(client, session, turns=300), within_s=60)  # noqa: B023
            stored(server, client, session).assert_conserved(turns)
        assert worker.stop() == 0


def test_calls_fail_with_a_typed_error_while_the_store_is_away(
    namespace: str, new_server: Callable[..., EmbeddedRedis]
) -> None:
    store = new_server(durable=True)
    with ContextClient(store.url, namespace=namespace, timeout_s=0.5) as client:
        client.push("s", {"role": "user", "content": "Before."})

        store.kill()
        with pytest.raises(StoreUnavailable):
            client.push("s", {"role": "user", "content": "During."})
        with pytest.raises(StoreUnavailable):
            client.read("s")
        store.start()

        assert client.push("s", {"role": "user", "content": "After."}).seq == 2
        assert [m["content"] for m in client.read("s").messages] == ["Before.", "After."]
