"""A TCP proxy that knows Redis' protocol: it breaks a connection between any two commands.

What a process does is a sequence of commands, and its scripts have names. So a trap at the n-th
command of a name is a fault between two steps, and no line of the product knows of faults.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, Self

import psutil

from turnmill import lua as client_scripts
from turnmill.contract.scripts import load_script
from turnmill_worker.store import lua as worker_scripts

Action = Literal["cut before", "cut after", "cut mid-reply", "stall", "freeze", "call"]


@dataclass(eq=False)
class Trap:
    """A fault at the n-th command of a name from now on; springs once.

    Attributes:
        command: the name of a script, or of a command of Redis.
        action: ``cut before`` Redis sees it, ``cut after`` it was carried out and before its reply
            comes back, or in the middle of the reply; ``stall`` it for ``seconds``; ``freeze``
            the process that sent it, until ``released``; ``call`` something first, then go on.
        session: whose keys the command named, once it has sprung.
    """

    command: str
    action: Action
    nth: int = 1
    seconds: float = 0.0
    session: str = ""
    call: Callable[[], object] | None = None
    sprung: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Forwards connections to a port of this machine while it is entered; safe from any thread."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self._target = port
        self._traps: list[Trap] = []
        self._pairs: set[_Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop
        )
        self._server = started.result(timeout=10)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            self._server.close()
            self._cut_all()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    @property
    def url(self) -> str:
        """Where it listens, as a Redis."""
        return f"redis://127.0.0.1:{self.port}/0"

    def set(self, trap: Trap) -> Trap:
        """Wait for the trap's command."""
        self._loop.call_soon_threadsafe(self._traps.append, trap)
        return trap

    def lead_to(self, port: int) -> None:
        """Forward to another port from now on; connections are cut."""
        self._target = port
        self.cut_all()

    def cut_all(self) -> None:
        """Reset every connection."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def _cut_all(self) -> None:
        for pair in list(self._pairs):
            pair.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, up_writer)
        self._pairs.add(pair)
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.gather(self._commands(pair, reader), self._replies(pair, up_reader))
        pair.cut()
        self._pairs.discard(pair)

    async def _commands(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        buffer = b""
        while data := await reader.read(65536):
            buffer += data
            at = 0
            for end, name in commands(buffer):
                if trap := self._sprung(name):
                    trap.session = session_of(buffer[at:end])
                    await self._spring(trap, pair)
                pair.server.write(buffer[at:end])
                at = end
            buffer = buffer[at:]
            await pair.server.drain()
        raise ConnectionResetError

    async def _replies(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if pair.ends == "cut after":
                break
            half = pair.ends == "cut mid-reply"
            pair.client.write(data[: len(data) // 2] if half else data)
            if half:
                await asyncio.sleep(0.01)
                break
        raise ConnectionResetError

    def _sprung(self, name: str) -> Trap | None:
        for trap in self._traps:
            if trap.command == name:
                trap.nth -= 1
                if trap.nth == 0:
                    self._traps.remove(trap)
                    return trap
        return None

    async def _spring(self, trap: Trap, pair: _Pair) -> None:
        if trap.action != "freeze":
            trap.sprung.set()
        if trap.call is not None:
            await asyncio.to_thread(trap.call)
        if trap.action == "stall":
            await asyncio.sleep(trap.seconds)
        elif trap.action == "freeze":
            ends = (pair.client.get_extra_info(end) for end in ("peername", "sockname"))
            await asyncio.to_thread(_freeze, process_behind(*ends), trap)
        elif trap.action == "cut before":
            raise ConnectionResetError
        elif trap.action != "call":
            pair.ends = trap.action


def process_behind(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The process whose connection goes from one address to the other; None when it is gone.

    A local port may serve connections to several addresses, so it says nothing alone: who was
    frozen by it could be the process that runs the tests, and nobody resumed that one.
    """
    connections = psutil.net_connections(kind="tcp4")
    ends = (local, remote)
    pids = (each.pid for each in connections if (each.laddr, each.raddr) == ends)
    return next((pid for pid in pids if pid is not None), None)


def _freeze(pid: int | None, trap: Trap) -> None:
    """SIGSTOP it, so that it neither gives up nor tries again meanwhile."""
    if pid is None:
        return  # it was killed meanwhile: there is nobody to freeze
    frozen = psutil.Process(pid)
    frozen.suspend()
    trap.sprung.set()
    trap.released.wait(60)
    with suppress(psutil.NoSuchProcess):
        frozen.resume()


@dataclass(eq=False)
class _Pair:
    """A client's connection, and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    ends: str = ""

    def cut(self) -> None:
        """Reset both."""
        for writer in (self.client, self.server):
            plain: socket.socket | None = writer.get_extra_info("socket")
            with suppress(OSError):
                if plain is not None:  # lingering for 0 s sends a reset
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@cache
def _scripts() -> dict[str, str]:
    """Scripts by their SHA-1."""
    found = {}
    for package in (client_scripts.__name__, worker_scripts.__name__):
        files = [file.name for file in resources.files(package).iterdir()]
        for name in sorted(file.removesuffix(".lua") for file in files if file.endswith(".lua")):
            found[load_script(package, name).sha] = name
    return found


def commands(buffer: bytes) -> Iterator[tuple[int, str]]:
    """Where each whole command in the buffer ends, and its name."""
    at = 0
    while words := _words(buffer, at):
        at, name, argument = words
        yield at, _name(name, argument)


def _words(buffer: bytes, at: int) -> tuple[int, bytes, bytes] | None:
    """The end of the command that begins here, and its first two words; None when it is cut off."""
    line = buffer.find(b"\r\n", at)
    if line < 0:
        return None
    count, at = int(buffer[at + 1 : line]), line + 2
    words: list[bytes] = []
    for _ in range(count):
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        start = line + 2
        at = start + int(buffer[at + 1 : line]) + 2
        if at > len(buffer):
            return None
        if len(words) < 2:
            words.append(buffer[start : at - 2])
    return at, words[0], words[1] if len(words) > 1 else b""


def session_of(command: bytes) -> str:
    """Whose keys the command names, or ``""``."""
    named = re.search(rb":s:([^:\r]+):", command)
    return named[1].decode() if named else ""


def _name(command: bytes, argument: bytes) -> str:
    if command == b"EVALSHA":
        return _scripts().get(argument.decode(), "")
    if command == b"EVAL":
        return _scripts().get(hashlib.sha1(argument, usedforsecurity=False).hexdigest(), "")
    return command.decode(errors="replace").upper()
