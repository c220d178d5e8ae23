"""Commits as they happen, as server-sent events: one connection to Redis hears them for all."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any, Final

import redis

from turnmill.connection.store_client import store_client
from turnmill.contract.codec import decode_json
from turnmill.contract.keys import commits_channel
from turnmill.contract.names import Namespace

QUIET_S: Final = 15.0
"""After so long without an event a comment is sent: proxies close what is silent."""

MOST_STREAMS: Final = 256
"""Of a namespace, at one server: each holds a connection, which others cannot have."""

_MOST_WAITING = 1_000
_LOOK_S = 0.5
_Stream = asyncio.Queue[bytes | None]


class Events:
    """Whoever listens to commits of a namespace.

    A stream ends when Redis is lost, or when it does not keep up: who reads it reconnects, and
    reads what is so now.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._streams: defaultdict[str, set[_Stream]] = defaultdict(set)
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open_of(self, namespace: str) -> int:
        """How many streams of a namespace are open."""
        return len(self._streams[namespace])

    async def of(
        self, namespace: str, session: str, may_hear: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """The events of a namespace, or of one session of it, as they are sent.

        Whoever reads them is asked about before each: a key may have been revoked meanwhile.
        """
        stream = _Stream(_MOST_WAITING)
        self._streams[namespace].add(stream)
        self._listen()
        try:
            yield b": commits follow\n\n"
            while True:
                try:
                    async with asyncio.timeout(QUIET_S):
                        record = await stream.get()
                except TimeoutError:
                    record = b""
                if record is None or not await may_hear():
                    return
                if not record:
                    yield b":\n\n"
                elif not session or decode_json(record).get("session") == session:
                    yield b"event: commit\ndata: " + record + b"\n\n"
        finally:
            self._streams[namespace].discard(stream)

    def close(self) -> None:
        """End all streams; from a handler of signals, too."""
        self._stopped.set()
        self._in_loop(self._end_all)

    def _listen(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._loop = asyncio.get_running_loop()
            name = "turnmill-events"
            self._thread = threading.Thread(target=self._hear, name=name, daemon=True)
            self._thread.start()

    def _hear(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(store_client(self._url, self._timeout_s)) as client:
                    self._hear_from(client)
            except redis.RedisError:
                self._in_loop(self._end_all)
                self._stopped.wait(_LOOK_S)

    def _hear_from(self, client: Any) -> None:
        if servers := getattr(client, "servers", None):
            [(_, client), *_] = servers()  # each node of a cluster hears what any publishes
        with closing(client.pubsub(ignore_subscribe_messages=True)) as channel:
            channel.psubscribe(commits_channel(Namespace("*")))
            while not self._stopped.is_set():
                if message := channel.get_message(timeout=_LOOK_S):
                    name = message["channel"].decode().split(":")[1]
                    self._in_loop(self._heard, name, message["data"])

    def _in_loop(self, call: Any, *args: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _heard(self, namespace: str, record: bytes) -> None:
        for stream in list(self._streams.get(namespace, ())):
            if stream.full():
                _end(stream)
            else:
                stream.put_nowait(record)

    def _end_all(self) -> None:
        for streams in list(self._streams.values()):
            for stream in streams:
                _end(stream)


def _end(stream: _Stream) -> None:
    while not stream.empty():
        stream.get_nowait()
    stream.put_nowait(None)
