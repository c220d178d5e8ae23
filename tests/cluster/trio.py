"""A master and its replica under three Sentinels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.cluster.servers import Node
from tests.processes import wait_until

__all__ = ["Trio"]
PASSWORD = "s3cret-of-the-servers"  # noqa: S105 - of servers that live for a test
SENTINEL_PASSWORD = "s3cret-of-the-sentinels"  # noqa: S105


class Trio:
    """A master, its replica, and three Sentinels that watch them; all with passwords."""

    def __init__(self, folder: Path) -> None:
        login = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
        options = (*login, "--save", "", "--repl-diskless-sync-delay", "0")
        self.master = Node(folder, *options, password=PASSWORD)
        self.replica = Node(
            folder, *options, "--replicaof", "127.0.0.1", str(self.master.port), password=PASSWORD
        )
        self._folder = folder
        self.sentinels: list[Node] = []

    @property
    def url(self) -> str:
        """The first Sentinel named is one that nobody answers at."""
        places = ",".join(["127.0.0.1:1", *(each.address for each in self.sentinels)])
        return f"redis+sentinel://:{PASSWORD}@{places}/shop?sentinel_password={SENTINEL_PASSWORD}"

    def start(self) -> Self:
        """Start the servers, then the Sentinels; returns when these know one another."""
        self.master.start()
        self.replica.start()
        for _ in range(3):
            configured = self._folder / f"sentinel-{len(self.sentinels)}.conf"
            configured.write_text(
                f"requirepass {SENTINEL_PASSWORD}\n"
                f"sentinel sentinel-pass {SENTINEL_PASSWORD}\n"
                f"sentinel monitor shop 127.0.0.1 {self.master.port} 2\n"
                f"sentinel auth-pass shop {PASSWORD}\n"
                "sentinel down-after-milliseconds shop 1000\n"
                "sentinel failover-timeout shop 4000\n"
            )
            node = Node(self._folder, str(configured), "--sentinel", password=SENTINEL_PASSWORD)
            self.sentinels.append(node.start())
        wait_until(lambda: all(map(self._is_ready, self.sentinels)), within_s=20, what="Sentinels")
        return self

    def current(self) -> Node:
        """The master as the Sentinels know it."""
        found = self._ask(self.sentinels[-1])[b"port"]
        return next(each for each in (self.master, self.replica) if each.port == int(found))

    def stop(self) -> None:
        """End all."""
        for node in [*self.sentinels, self.master, self.replica]:
            node.stop()

    def _is_ready(self, sentinel: Node) -> bool:
        told = self._ask(sentinel)
        return (
            int(told[b"num-other-sentinels"]) == 2
            and int(told[b"num-slaves"]) == 1
            and self.replica.client.info("replication")["master_link_status"] == "up"
        )

    @staticmethod
    def _ask(sentinel: Node) -> dict[bytes, bytes]:
        # Words as they come: redis-py's own reading of them depends on its version.
        connection: Any = sentinel.client.connection_pool.get_connection()
        try:
            connection.send_command("SENTINEL", "MASTER", "shop")
            told = connection.read_response()
        finally:
            sentinel.client.connection_pool.release(connection)
        return told if isinstance(told, dict) else dict(_pairs(told))


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
