"""Real redis-servers that return to an earlier state, by failover, crash or restore."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import redis

from tests.processes import wait_until
from turnmill.connection.embedded import EmbeddedRedis


class GoingBack(ABC):
    """A server whose state can be noted, and that returns to it.

    As a context manager it runs inside the block.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.binary = os.environ.get("TURNMILL_TEST_REDIS_SERVER") or None
        self.server = EmbeddedRedis(folder / "primary", binary=self.binary)

    @property
    def url(self) -> str:
        """Where agents and workers reach it now."""
        return self.server.url

    @abstractmethod
    def note(self) -> None:
        """Note the state it will return to."""

    @abstractmethod
    def go_back(self) -> None:
        """Lose all that was written since the state was noted."""

    def __enter__(self) -> Self:
        self.server.start()
        with redis.Redis.from_url(self.url) as client:
            client.config_set("appendfsync", "always")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()


class Promoted(GoingBack):
    """A replica loses its link, and is promoted later: without the tail."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._replica = self.server

    def note(self) -> None:
        folder = self.folder / f"replica of {self.server.port}"
        self._replica = EmbeddedRedis(folder, binary=self.binary).start()
        with redis.Redis.from_url(self._replica.url) as replica:
            replica.execute_command("REPLICAOF", "127.0.0.1", self.server.port)
            with redis.Redis.from_url(self.url) as primary:
                wait_until(lambda: _replicated(primary, replica), what="replica in step")
            replica.execute_command("REPLICAOF", "127.0.0.1", 1)  # nobody is there

    def go_back(self) -> None:
        self.server.kill()
        self.server = self._replica
        with redis.Redis.from_url(self.url) as promoted:
            promoted.execute_command("REPLICAOF", "NO", "ONE")

    def __exit__(self, *_: object) -> None:
        self._replica.kill()
        super().__exit__()


def _replicated(primary: Any, replica: Any) -> bool:
    link = replica.info("replication")
    at = primary.info("replication")["master_repl_offset"]
    return bool(link["master_link_status"] == "up" and link["slave_repl_offset"] >= at)


class Cut(GoingBack):
    """A crash cuts the end off the append-only file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._size = 0

    def _log(self) -> Path:
        found = sorted(self.server.directory.rglob("*.aof"), key=lambda file: "incr" in file.name)
        return found[-1]

    def note(self) -> None:
        self._size = self._log().stat().st_size

    def go_back(self) -> None:
        self.server.kill()
        os.truncate(self._log(), self._size)
        self.server.start()


class Restored(GoingBack):
    """An operator puts back a copy of its folder."""

    def note(self) -> None:
        shutil.rmtree(self.folder / "backup", ignore_errors=True)
        shutil.copytree(self.server.directory, self.folder / "backup")

    def go_back(self) -> None:
        self.server.kill()
        shutil.rmtree(self.server.directory)
        shutil.copytree(self.folder / "backup", self.server.directory)
        self.server.start()


WAYS: list[type[GoingBack]] = [Promoted, Cut, Restored]
