"""Redis servers that can be broken in every way their operators know, and repaired again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import redis

from tests.processes import wait_until
from turnmill.connection.embedded import EmbeddedRedis, find_redis_server, free_port
from turnmill.contract.errors import StoreUnavailable

IGNORING_FULL_DISKS = ("sh", "-c", 'trap "" XFSZ; exec "$@"', "sh")
"""A launcher: a write over the limit of a file fails, as on a full disk, and kills nobody."""

REWRITING = ("in_progress", "scheduled")
"""What a rewrite of the journal is while it must not be copied."""


class Server(EmbeddedRedis):
    """A redis-server with settings of one's own."""

    def __init__(self, folder: Path, *, fsync: str = "everysec", **settings: str) -> None:
        super().__init__(folder, launcher=IGNORING_FULL_DISKS)
        self._settings: Mapping[str, str] = {"appendfsync": fsync, **settings}

    def _options(self) -> list[str]:
        changed = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
        return [*super()._options(), *changed]

    @property
    def journal(self) -> Path:
        """The append-only file: one, or the newest of Redis 7's folder."""
        parts = self.directory.glob("appendonlydir/*.incr.aof")
        single = self.directory / "appendonly.aof"
        return max(parts, key=lambda part: int(part.name.split(".")[-3]), default=single)

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """A connection for whoever operates it, once it has loaded its data."""
        with redis.Redis(port=self.port, socket_timeout=30) as client:
            wait_until(lambda: _is_up(client), within_s=60, what="Redis up")
            yield client

    def crash(self, *, cut_to: int | None = None) -> float:
        """SIGKILL it and start it again; returns when it was gone.

        ``cut_to``: with so many bytes of its journal.
        """
        self.kill()
        gone_s = time.monotonic()
        if cut_to is not None:
            with self.journal.open("ab") as file:
                file.truncate(cut_to)
        self._start_again()
        return gone_s

    def _start_again(self) -> None:
        """Start it where it was: somebody's connection may have its port for a moment."""
        for _ in range(10):
            with suppress(StoreUnavailable):
                self.start()
                return
            time.sleep(1)
        self.start()

    def pause(self, seconds: float) -> None:
        """SIGSTOP it for a while."""
        assert self.pid is not None
        process = psutil.Process(self.pid)
        process.suspend()
        time.sleep(seconds)
        process.resume()

    def limit_disk(self, more_bytes: int | None) -> None:
        """Let its journal grow by so many bytes at most; None ends that."""
        assert self.pid is not None
        most = psutil.RLIM_INFINITY
        if more_bytes is not None:
            most = self.journal.stat().st_size + more_bytes
        psutil.Process(self.pid).rlimit(psutil.RLIMIT_FSIZE, (most, psutil.RLIM_INFINITY))

    def answers(self) -> bool:
        """Whether it runs, and goes on: what fails to write its journal answers nobody."""
        try:
            with redis.Redis(port=self.port, socket_timeout=30) as client:
                return bool(client.info("server"))
        except redis.ConnectionError:
            return False

    def limit_memory(self, more_bytes: int | None) -> None:
        """Let it use so many bytes more at most; None ends that."""
        with self.admin() as client:
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", 0 if more_bytes is None else used + more_bytes)

    def rewrite(self) -> None:
        """Write its journal anew, as docs/operations.md says to do after its disk was full."""
        with self.admin() as client:
            _wait_for_rewrites(client)
            client.bgrewriteaof()
            _wait_for_rewrites(client)
            assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"

    @contextmanager
    def without_rewrites(self) -> Iterator[None]:
        """Its journal stays the file that it is, and only grows."""
        with self.admin() as client:
            client.config_set("auto-aof-rewrite-percentage", 0)
            _wait_for_rewrites(client)
        yield
        with self.admin() as client:
            client.config_set("auto-aof-rewrite-percentage", 100)

    def back_up(self, to: Path) -> None:
        """Copy its data as docs/operations.md says."""
        with self.without_rewrites():
            self.rewrite()
            folder = self.directory / "appendonlydir"
            if folder.exists():
                shutil.copytree(folder, to / folder.name)
            else:
                to.mkdir(parents=True)
                shutil.copy(self.journal, to)

    def restore(self, backup: Path) -> float:
        """End it, and start it with the data of a backup; returns when it was gone."""
        self.kill()
        gone_s = time.monotonic()
        shutil.rmtree(self.directory)
        shutil.copytree(backup, self.directory)
        self._start_again()
        return gone_s

    def follow(self, master: EmbeddedRedis) -> None:
        """Become the master's replica, and wait until its data is here."""
        with self.admin() as client:
            client.replicaof("127.0.0.1", master.port)
            while client.info("replication")["master_link_status"] != "up":
                time.sleep(0.02)

    def catch_up(self, master: Server) -> float:
        """Wait until it has all that its master had now; returns when that was."""
        now_s = time.monotonic()
        with master.admin() as theirs, self.admin() as own:
            wanted = theirs.info("replication")["master_repl_offset"]
            while own.info("replication")["slave_repl_offset"] < wanted:
                time.sleep(0.02)
        return now_s

    def lead(self) -> None:
        """Be nobody's replica any more, with the data that is here."""
        with self.admin() as client:
            client.replicaof("NO", "ONE")


class Sentinel:
    """One Sentinel that watches a master, and tells of each failover."""

    NAME = "chaos"

    def __init__(self, folder: Path, master: EmbeddedRedis) -> None:
        self.port = free_port()
        self._settings = folder / "sentinel.conf"
        self._settings.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nlogfile {folder}/sentinel.log\n"
            f"sentinel monitor {self.NAME} 127.0.0.1 {master.port} 1\n"
            f"sentinel down-after-milliseconds {self.NAME} 500\n"
            f"sentinel failover-timeout {self.NAME} 3000\n"
        )

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [find_redis_server(), str(self._settings), "--sentinel"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=10)

    def master(self) -> int | None:
        """The port of whom it takes for the master; None while it does not say."""
        try:
            with redis.Redis(port=self.port, socket_timeout=1) as client:
                found: Any = client.sentinel_get_master_addr_by_name(self.NAME)
        except redis.RedisError:
            return None
        return int(found[1]) if found else None

    def knows_replicas(self) -> bool:
        """Whether it has found whom it could promote."""
        try:
            with redis.Redis(port=self.port, socket_timeout=1) as client:
                found: Any = client.execute_command("SENTINEL", "slaves", self.NAME)
        except redis.RedisError:
            return False
        return bool(found)


def _wait_for_rewrites(client: Any) -> None:
    while any(client.info("persistence")[f"aof_rewrite_{it}"] for it in REWRITING):
        time.sleep(0.01)


def _is_up(client: Any) -> bool:
    """Whether it answers with its data; another fault may be starting it just now."""
    try:
        return not client.info("persistence")["loading"]
    except redis.ConnectionError:
        return False
