"""A master under Sentinels is killed: agents and workers find the next one by themselves."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.agents import Agent, Load, stored_of
from tests.cluster.trio import PASSWORD, SENTINEL_PASSWORD, Trio
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import Stored, settled
from turnmill import ContextClient
from turnmill.connection.store_client import store_client

TURNS = 200
LOSS_WINDOW_S = 1.0
"""What a replica may lack when it is promoted: Redis replicates after it has answered."""


@pytest.mark.worker
def test_after_a_master_is_killed_agents_and_workers_go_on_with_the_next(
    trio: Trio, namespace: str, tmp_path: Path
) -> None:
    load = Load(trio.url, namespace, broker=None, turns=TURNS, agents=3)
    with (
        # The Sentinels' master is the broker too: no other is named.
        WorkerProcess(trio.url, tmp_path, name="t", pool="threads", concurrency=4) as threads,
        WorkerProcess(trio.url, tmp_path, name="p", pool="prefork", concurrency=2) as prefork,
        ContextClient(trio.url, namespace=namespace) as client,
        closing(store_client(trio.url, 5)) as server,
    ):
        load.start()
        wait_until(lambda: all(len(agent.acknowledged) > 60 for agent in load.agents))
        load.is_checking = False  # what was lost is missing from reads
        assert load.is_running
        trio.master.kill()
        killed_s = time.monotonic()
        wait_until(lambda: trio.current() is trio.replica, what="a replica promoted")
        before = sum(len(agent.acknowledged) for agent in load.agents)
        compacted = [
            stored_of(trio.replica.client, namespace, a.session).versions for a in load.agents
        ]
        load.join()
        for agent in load.agents:
            kept = client.info(agent.session).last_seq
            wait_until(partial(settled, client, agent.session, turns=kept), what=agent.session)

        assert before < sum(len(agent.acknowledged) for agent in load.agents) == 6 * TURNS
        for agent, earlier in zip(load.agents, compacted, strict=True):
            found = stored_of(server, namespace, agent.session)
            _assert_kept(agent, found, killed_s)
            assert len(found.versions) > len(earlier), "workers went on"
    for log in (threads.output(), prefork.output()):
        assert PASSWORD not in log
        assert SENTINEL_PASSWORD not in log


def _assert_kept(agent: Agent, found: Stored, killed_s: float) -> None:
    """Every turn is there once and in order, but for those acknowledged just before the kill."""
    certain = [
        turn["content"]
        for turn, at_s in zip(agent.turns, agent.acknowledged, strict=True)
        if not killed_s - LOSS_WINDOW_S < at_s < killed_s + 0.1
    ]
    seqs, texts = [*found.covered, *found.log], [turn[0]["content"] for turn in found.messages]
    assert seqs == list(range(1, len(seqs) + 1))
    assert [text for text in texts if text in set(certain)] == certain
    assert len(set(texts)) == len(texts), "a turn is there twice"
