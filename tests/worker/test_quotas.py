"""Quotas in a running system: the operator's file, a worker that measures, agents that are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, QuotaExceeded
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

HELLO = {"role": "user", "content": "Hello."}


def test_a_tenant_beyond_its_quota_is_told_and_others_go_on(
    client: ContextClient,
    store: EmbeddedRedis,
    new_worker: Callable[..., WorkerProcess],
    tmp_path: Path,
) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text(f"[namespaces.{client.namespace}]\nsessions = 3\nmemories = 1\n")
    archive = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(tmp_path / "data")}
    worker = new_worker("measures", env={**archive, "TURNMILL_QUOTAS_FILE": str(file)})
    refused: list[QuotaExceeded] = []

    def takes_a_session() -> bool:
        with ContextClient(store.url, namespace=client.namespace) as agent:
            try:
                agent.push(f"s{len(client.sessions())}", HELLO)
            except QuotaExceeded as error:
                refused.append(error)
                return False
        return True

    wait_until(lambda: not takes_a_session(), within_s=60)
    assert refused[0].quota == "sessions"
    assert refused[0].used == len(client.sessions()) >= refused[0].allowed == 3
    wait_until(lambda: "quota used up" in worker.output())
    with ContextClient(store.url, namespace=f"{client.namespace}-other") as other:
        for at in range(10):
            assert other.push(f"s{at}", HELLO).seq == 1

    first = client.remember("Anna likes parcels.")
    assert client.remember("Anna likes parcels.") == first
    with pytest.raises(QuotaExceeded, match="1 of 1 memories") as told:
        client.remember("Berta likes letters.")
    assert (told.value.quota, told.value.used, told.value.allowed) == ("memories", 1, 1)

    file.write_text(f"[namespaces.{client.namespace}]\nsessions = 1000\n")
    wait_until(takes_a_session, within_s=30)
    assert client.remember("Berta likes letters.") != first
