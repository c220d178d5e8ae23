"""Real servers for these tests, and a Cluster of three of them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import redis
from redis.crc import key_slot

from tests.processes import wait_until
from turnmill.connection.embedded import find_redis_server

__all__ = ["Cluster", "Node", "server_binary", "slots_of"]
SLOTS = 16384


def server_binary() -> str:
    """The server of these tests; TURNMILL_TEST_REDIS_SERVER names another, Valkey's for example."""
    return os.environ.get("TURNMILL_TEST_REDIS_SERVER") or find_redis_server()


def _port() -> int:
    """A free one whose cluster bus, 10,000 higher, is free too."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


class Node:
    """One server process; with the path of a certificate and its key, it speaks TLS alone."""

    def __init__(
        self, folder: Path, *options: str, password: str = "", tls: tuple[Path, Path] | None = None
    ) -> None:
        self.port = _port()
        self.folder = folder / str(self.port)
        self.folder.mkdir(parents=True)
        self._options = options
        self._listening = ["--port", str(self.port)]
        secured: dict[str, Any] = {}
        if tls is not None:
            cert, key = map(str, tls)
            self._listening = ["--port", "0", "--tls-port", str(self.port)]
            self._listening += ["--tls-cert-file", cert, "--tls-key-file", key]
            self._listening += ["--tls-ca-cert-file", cert, "--tls-auth-clients", "no"]
            self._listening += ["--tls-replication", "yes"]
            secured = {"ssl": True, "ssl_ca_certs": cert}
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = redis.Redis(
            port=self.port, password=password or None, socket_timeout=10, **secured
        )

    @property
    def address(self) -> str:
        """As clients write it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        log = (self.folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [server_binary(), *self._options, *self._listening, "--bind", "127.0.0.1"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        wait_until(self.answers, within_s=10, what="server answers")
        return self

    def answers(self) -> bool:
        """Whether it does now."""
        with suppress(redis.RedisError):
            return bool(self.client.ping())
        return False

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=20)
            self._process = None

    def stop(self) -> None:
        """End it, and close the connection to it."""
        self.kill()
        self.client.close()


class Cluster:
    """Three masters without replicas."""

    def __init__(self, folder: Path, tls: tuple[Path, Path] | None = None) -> None:
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--save", ""]
        options += ["--tls-cluster", "yes"] if tls else []
        self.nodes = [Node(folder, *options, tls=tls) for _ in range(3)]

    @property
    def url(self) -> str:
        """Of two of them: clients find the third."""
        return f"redis+cluster://{self.nodes[0].address},{self.nodes[1].address}"

    def start(self) -> Self:
        """Start the servers and give each a third of the slots."""
        for node in self.nodes:
            node.start()
        for at, node in enumerate(self.nodes):
            node.client.execute_command(
                "CLUSTER ADDSLOTS", *range(SLOTS * at // 3, SLOTS * (at + 1) // 3)
            )
            node.client.execute_command("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
        wait_until(lambda: all(map(_is_whole, self.nodes)), within_s=20, what="cluster ready")
        return self

    def owner(self, slot: int) -> Node:
        """The master that serves the slot."""
        for first, last, (_, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody serves slot {slot}")

    def next_to(self, node: Node) -> Node:
        """Another master."""
        return self.nodes[(self.nodes.index(node) + 1) % 3]

    def begin_move(self, slot: int) -> tuple[Node, Node]:
        """Let the slot be on its way from one master to another; no key moves yet."""
        source = self.owner(slot)
        target = self.next_to(source)
        target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", _id(source))
        source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", _id(target))
        return source, target

    @staticmethod
    def move_keys(slot: int, source: Node, target: Node, *, most: int) -> bool:
        """Move some of its keys; False when none was left."""
        keys = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, most)
        if keys:
            source.client.execute_command(
                "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys
            )
        return bool(keys)

    def end_move(self, slot: int, target: Node) -> None:
        """Let the target serve the slot."""
        for node in [target, *(each for each in self.nodes if each is not target)]:
            node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", _id(target))

    def move(self, slot: int, *, pause_s: float = 0.01, most: int = 4) -> None:
        """Move the slot as `redis-cli --cluster reshard` does, a few keys at a time."""
        source, target = self.begin_move(slot)
        time.sleep(pause_s)
        while self.move_keys(slot, source, target, most=most):
            time.sleep(pause_s)
        self.end_move(slot, target)

    def keys(self, pattern: str) -> list[bytes]:
        """The keys on all masters."""
        return [key for node in self.nodes for key in node.client.keys(pattern)]

    def stop(self) -> None:
        """End all."""
        for node in self.nodes:
            node.stop()

    def _slots(self) -> Any:
        return self.nodes[0].client.execute_command("CLUSTER SLOTS")


def slots_of(keys: Sequence[str]) -> list[int]:
    """The slots of the keys, each once."""
    return [*dict.fromkeys(key_slot(key.encode()) for key in keys)]


def _id(node: Node) -> str:
    found = node.client.execute_command("CLUSTER MYID")
    return found.decode() if isinstance(found, bytes) else str(found)


def _is_whole(node: Node) -> bool:
    info = node.client.execute_command("CLUSTER INFO")
    known = (
        info
        if isinstance(info, dict)
        else dict(line.split(":") for line in info.decode().split() if ":" in line)
    )
    return known["cluster_state"] == "ok" and int(known["cluster_known_nodes"]) == 3
