"""A real PostgreSQL server of one's own, started without root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from turnmill.connection.embedded import free_port

_FOLDERS = Path("/usr/lib/postgresql")
_USER = "archivist"


def postgres_bin() -> Path | None:
    """The folder of ``initdb`` and ``postgres``, or None when there is none."""
    packaged = sorted(_FOLDERS.glob("*/bin"), key=lambda folder: float(folder.parent.name))
    found = shutil.which("initdb")
    folders = [*reversed(packaged), *([Path(found).resolve().parent] if found else [])]
    complete = (
        folder
        for folder in folders
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists()
    )
    return next(complete, None)


class Postgres:
    """A server in a folder; ``url(database)`` makes a database and says where it is."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.data = folder / "data"
        self._bin = binaries
        self._port = free_port()
        self._as_other = _without_root(folder)
        self._run("initdb", "-D", self.data, "-U", _USER, "-A", "trust", "-E", "UTF8", "-N")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self._port}\n"
                f"unix_socket_directories = '{folder}'\nmax_connections = 60\n"
                "fsync = off\n"  # the machine stays on
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._run("pg_ctl", "-D", self.data, "-l", self.data / "log", "-w", "-t", "60", "start")

    def stop(self) -> None:
        """Stop it at once, if it runs: connections are cut off."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def url(self, database: str) -> str:
        """Where the database of this name is."""
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    @contextmanager
    def admin(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        """A connection that may do anything, each statement on its own."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            yield connection

    def create(self, database: str) -> str:
        """Make an empty database; its URL."""
        with self.admin() as connection:
            connection.execute(f'CREATE DATABASE "{database}"'.encode())
        return self.url(database)

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*self._as_other, self._bin / program, *arguments]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            check=False,
        )
        if done.returncode:
            log = self.data / "log"
            said = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program}: {done.stderr.decode()}\n{said}")


def _without_root(folder: Path) -> Sequence[str]:
    """What to put before a command so that it does not run as root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return ()
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
