"""Slots move between masters while agents and workers are at it: nobody notices."""

from __future__ import annotations

import itertools
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.agents import Load, stored_of
from tests.cluster.servers import Cluster, slots_of
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import settled
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.store_client import store_client
from turnmill.contract.keys import NAMESPACES, SWEEP_LEASE, in_all_shards, session_keys
from turnmill.contract.names import Namespace, SessionId

TURNS = 150
MOVE_FOR_S = 6.0


@pytest.mark.worker
def test_resharding_under_load_loses_nothing_and_repeats_nothing(
    cluster: Cluster, broker: EmbeddedRedis, namespace: str, tmp_path: Path
) -> None:
    think_s = MOVE_FOR_S / TURNS  # or a quick machine has pushed all before the first compaction
    load = Load(cluster.url, namespace, broker=broker.url, turns=TURNS, think_s=think_s)
    name = Namespace(namespace)
    keys = [session_keys(name, SessionId(agent.session)).meta for agent in load.agents]
    slots = itertools.cycle(slots_of([*keys, NAMESPACES, SWEEP_LEASE]))
    env = {"TURNMILL_BROKER_URL": broker.url}
    moved = 0
    with (
        WorkerProcess(
            cluster.url, tmp_path, name="threads", pool="threads", concurrency=4, env=env
        ),
        WorkerProcess(
            cluster.url, tmp_path, name="prefork", pool="prefork", concurrency=2, env=env
        ),
        ContextClient(cluster.url, namespace=namespace, broker=broker.url) as client,
        closing(store_client(cluster.url, 5)) as server,
    ):
        load.start()
        ends = time.monotonic() + MOVE_FOR_S
        while load.is_running or time.monotonic() < ends:
            cluster.move(next(slots))
            moved += 1
        load.join()
        for agent in load.agents:
            wait_until(
                partial(settled, client, agent.session, turns=TURNS),
                what=f"{agent.session} settled",
            )

        for agent in load.agents:
            found = stored_of(server, namespace, agent.session)
            found.assert_conserved(agent.turns)
            assert len(found.versions) > 1
            assert agent.reads >= TURNS - len(agent.errors)
        assert not server.exists(*in_all_shards(name, "backlog", "due"))
        assert moved > len(keys)
