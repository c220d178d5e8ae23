"""Clients and workers with a cipher, over a Cluster and over Sentinels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import redis

from tests.cluster.servers import Cluster, Node
from tests.cluster.trio import Trio
from tests.plain_cipher import cipher
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import settled
from turnmill import CannotDecrypt, ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis

TURNS = 40
WORD = "zanzibar"


@pytest.mark.worker
def test_nodes_of_a_cluster_hold_no_word(
    cluster: Cluster, broker: EmbeddedRedis, namespace: str, tmp_path: Path
) -> None:
    _talk(cluster.url, namespace, tmp_path, broker.url)

    assert not any(map(_has_word, cluster.nodes))


@pytest.mark.worker
def test_a_master_under_sentinels_holds_no_word(trio: Trio, namespace: str, tmp_path: Path) -> None:
    _talk(trio.url, namespace, tmp_path)

    assert not _has_word(trio.master)


def _talk(url: str, namespace: str, folder: Path, broker: str = "") -> None:
    env = {"TURNMILL_CIPHER": "tests.plain_cipher:cipher", "TURNMILL_BROKER_URL": broker}
    env["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    given = {"namespace": namespace, "broker": broker or None}
    with (
        WorkerProcess(url, folder, env=env),
        ContextClient(url, cipher=cipher, **given) as client,  # type: ignore[arg-type]  # of two kinds
        ContextClient(url, **given) as bare,  # type: ignore[arg-type]
    ):
        client.open("s", Policy(max_tokens=600))
        for at in range(TURNS):
            client.push("s", {"role": "user", "content": f"{at}: {WORD} " * 12})
        wait_until(lambda: settled(client, "s", turns=TURNS))

        assert client.info("s").version
        assert WORD in str(client.read("s").messages)
        assert [turn.seq for turn in client.trajectory("s").turns][-1] == TURNS
        with pytest.raises(CannotDecrypt, match="no cipher"):
            bare.read("s")


def _has_word(node: Node) -> bool:
    def of(key: bytes) -> object:
        try:
            return node.client.dump(key), node.client.xrange(key)
        except redis.ResponseError:  # no stream
            return node.client.dump(key)

    keys: Sequence[bytes] = node.client.keys("turnmill:*")
    return WORD in str([of(key) for key in keys])
