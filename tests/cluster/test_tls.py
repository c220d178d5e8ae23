"""TLS to a Cluster's nodes, to Sentinels, to their master, and to it as the broker."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.servers import Cluster, Node, server_binary
from tests.processes import WorkerProcess, wait_until
from turnmill import AsyncContextClient, ContextClient, SilentWaker

Tls = tuple[Path, Path]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    openssl = shutil.which("openssl")
    # A server built without TLS knows no such setting, and ends at once.
    asked = [server_binary(), "--port", "0", "--tls-port", "0", "--unixsocket", f"{folder}/s"]
    try:
        subprocess.run(asked, timeout=0.5, capture_output=True, check=False)
        knows_tls = False
    except subprocess.TimeoutExpired:
        knows_tls = True
    if openssl is None or not knows_tls:
        pytest.skip("takes openssl, and a server built with TLS")
    options = f"-newkey rsa:2048 -nodes -days 2 -keyout {folder}/key -out {folder}/cert"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made = [openssl, "req", "-x509", *options.split(), *names]
    subprocess.run(made, check=True, capture_output=True)
    return folder / "cert", folder / "key"


@pytest.fixture
def sentinels(tls: Tls, tmp_path: Path) -> Iterator[str]:
    """The URL of a master under one Sentinel."""
    master = Node(tmp_path, "--save", "", tls=tls).start()
    configured = tmp_path / "sentinel.conf"
    configured.write_text(f"sentinel monitor shop 127.0.0.1 {master.port} 1\n")
    sentinel = Node(tmp_path, str(configured), "--sentinel", tls=tls).start()
    yield f"rediss+sentinel://{sentinel.address}/shop?ssl_ca_certs={tls[0]}"
    sentinel.stop()
    master.stop()


def test_both_clients_reach_a_cluster(tls: Tls, tmp_path: Path, namespace: str) -> None:
    cluster = Cluster(tmp_path, tls)
    try:
        _used(cluster.start().url, namespace, tls)
    finally:
        cluster.stop()


@pytest.mark.worker
def test_clients_and_workers_reach_sentinels_and_their_master(
    sentinels: str, namespace: str, tmp_path: Path
) -> None:
    with (
        WorkerProcess(sentinels, tmp_path),
        ContextClient(sentinels, namespace=namespace) as client,
    ):
        for _ in range(30):
            client.push("one", {"role": "user", "content": "hello " * 50})
        wait_until(lambda: client.info("one").counted_seq == 30, what="counted")
        wait_until(lambda: client.hints.published, what="hinted")
        asyncio.run(_read(sentinels, namespace, turns=30))


def _used(url: str, namespace: str, tls: Tls) -> None:
    url = f"{url.replace('redis+', 'rediss+')}?ssl_ca_certs={tls[0]}"
    with ContextClient(url, namespace=namespace, broker=SilentWaker()) as client:
        client.push_many((f"s{at}", {"role": "user", "content": "hello"}) for at in range(30))
        client.push("one", {"role": "user", "content": "hello"})

        assert len(client.sessions()) == 31
    asyncio.run(_read(url, namespace, turns=1))


async def _read(url: str, namespace: str, *, turns: int) -> None:
    async with AsyncContextClient(url, namespace=namespace, broker=SilentWaker()) as client:
        assert (await client.read("one")).last_seq == turns
