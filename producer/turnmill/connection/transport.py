"""Redis as clients and workers reach it: connections, scripts, and its clock."""

from __future__ import annotations

import os
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import hiredis
import redis
from redis.backoff import ExponentialBackoff

from turnmill.contract.errors import (
    NotPermitted,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    TurnmillError,
)
from turnmill.contract.scripts import Script


def store_full(where: str = "Redis", info: object = None) -> StoreFull:
    """The error of a Redis at ``maxmemory``, with the reply to INFO memory where there is one."""
    if isinstance(info, bytes):
        pairs = (line.partition(":") for line in info.decode().splitlines())
        info = {name: value for name, _, value in pairs}
    told = "is at maxmemory"
    if isinstance(info, dict) and {"used_memory", "maxmemory"} <= info.keys():
        used, most = int(info["used_memory"]), int(info["maxmemory"])
        told = f"uses {used:,} bytes of maxmemory {most:,} bytes"
    return StoreFull(
        f"{where} {told} and refuses writes: workers free it by compacting and archiving sessions; "
        f"if it stays full, raise maxmemory, shorten ttl_s in the policies, or forget sessions"
    )


_NOT_PERMITTED = (
    "NOPERM",
    "no permissions to",
    "The user executing the script",  # Redis 6.2
    "ACL failure in script",  # since Redis 7
)
_UNREADY = ("READONLY", "MISCONF", "BUSY", "LOADING", "UNBLOCKED", "MASTERDOWN")
_PASSING = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.AskError,  # and MOVED: of a slot that moves for longer than anybody waits
    redis.exceptions.TryAgainError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.RedisClusterException,  # of a client the caller gave
)


def translate(error: redis.RedisError, where: str = "Redis") -> TurnmillError:
    """The typed error for what redis-py raised; ``where`` is the server's name."""
    if is_full(error):
        return store_full(where)
    causes = list(_causes(error))
    if refusal := _refusal(causes, where):
        return StoreRefused(refusal)
    if "DB index is out of range" in str(error):
        return StoreRefused(f"{where} has no database of this number")
    if any(words in str(error) for words in _NOT_PERMITTED):
        return NotPermitted(f"{where} does not permit this to the user of this URL (ACL)")
    kind = type(error).__name__
    unready = any(word in str(error) for word in _UNREADY)
    if unready or isinstance(error, _PASSING):
        return StoreUnavailable(
            f"{where} cannot be reached or answered too late ({kind}){_closed(causes)}"
        )
    return TurnmillError(f"{where} refused the call ({kind}); `turnmill doctor` may say why")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised for; not what the caller was busy with before."""
    while error is not None:
        yield error
        is_own = isinstance(error, redis.RedisError)
        error = (error.__cause__ or error.__context__) if is_own else None


def _refusal(causes: Sequence[BaseException], where: str) -> str:
    """Why no connection comes about until a setting changes, or ``""``."""
    for cause in causes:
        if isinstance(cause, redis.AuthenticationError):
            return f"{where} refuses this client: its user or password is missing or wrong"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of {where} cannot be trusted: {cause.verify_message}"
        # An alert of the other side, such as TLSV13_ALERT_CERTIFICATE_REQUIRED, or no TLS at all.
        if isinstance(cause, ssl.SSLError) and cause.reason and "EOF" not in cause.reason:
            return f"{where} and this client cannot agree on TLS: {cause.reason}"
        if isinstance(cause, FileNotFoundError | PermissionError):
            return f"a certificate's file, or Redis' socket, cannot be opened: {cause.strerror}"
    return ""


def _closed(causes: Sequence[BaseException]) -> str:
    # A server closes so fast that its alert is lost; a server that was ended looks the same.
    if any(isinstance(cause, ConnectionResetError | ssl.SSLEOFError) for cause in causes):
        return ": it closed the connection; it may ask for TLS, or for another client certificate"
    return ""


ATTEMPTS = 4
"""Tries of one call while the connection fails."""

MAX_CONNECTIONS = 64
"""Connections of one client; further callers wait for a free one."""


LOOK_AFTER_S = 1.0
"""A connection not used for this long is looked at first: the server may have closed it."""


class Connections(redis.ConnectionPool):
    """A pool whose callers wait for a free connection, and never for one another.

    redis-py's own pools take a lock, and look at the socket before every command: a look lets other
    threads run, and where many want to, this one waits long until it may go on. Here a connection
    that was in use a moment ago is handed out as it is. One whose server has gone meanwhile fails
    the command, which redis-py tries again.
    """

    def __init__(self, *args: Any, wait_s: float | None = None, **options: Any) -> None:
        self._wait_s = wait_s
        self._used_s: dict[Any, float] = {}
        super().__init__(*args, **options)

    def reset(self) -> None:
        """Begin anew, as a forked process must."""
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.max_connections):
            self._permits.put(None)
        self._used_s = {}
        super().reset()

    def get_connection(self, *_args: Any, **_options: Any) -> Any:
        """A connection nobody else uses; waits ``wait_s`` for one.

        Raises:
            redis.ConnectionError: none became free, or no connection can be made.
        """
        self._checkpid()
        try:
            self._permits.get(timeout=self._wait_s)
        except Empty:
            raise redis.ConnectionError("No connection available.") from None
        try:
            # A list's pop and a set's add are atomic: no lock.
            connection = self._available_connections.pop()
        except IndexError:
            connection = self.make_connection()
        self._in_use_connections.add(connection)
        try:
            self._make_ready(connection)
        except BaseException:
            self.release(connection)
            raise
        return connection

    def release(self, connection: Any, *, broken: bool | None = None) -> None:
        """Let others use it; closed if a reply may be left on its way.

        Where nobody says whether it is ``broken``, the error that is being handled does.
        """
        self._checkpid()
        try:
            self._in_use_connections.remove(connection)
        except KeyError:
            return  # of before a fork, or released already
        if broken is None:
            kind = sys.exc_info()[0]
            broken = kind is not None and not issubclass(kind, redis.ResponseError)
        if broken:
            connection.disconnect()
        self._used_s[connection] = time.monotonic()
        self._available_connections.append(connection)
        self._permits.put(None)

    def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        """Close the connections, those in use too unless told otherwise."""
        in_use = self._in_use_connections if inuse_connections else ()
        for connection in [*self._available_connections, *in_use]:
            connection.disconnect()

    def _make_ready(self, connection: Any) -> None:
        connection.connect()
        if time.monotonic() - self._used_s.get(connection, 0.0) < LOOK_AFTER_S:
            return
        try:
            is_stale = connection.can_read()
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            is_stale = True
        if is_stale:
            connection.disconnect()
            connection.connect()


def exchange(pool: Any, words: list[bytes], replies: int) -> list[Any]:
    """The replies to what is sent over one connection; an error of Redis is in its reply's place.

    Raises:
        redis.RedisError: there is no reply.
    """
    connection = pool.get_connection()
    broken = True
    try:
        connection.send_packed_command(words, check_health=False)
        found = [_reply(connection) for _ in range(replies)]
        broken = False
        return found
    finally:
        pool.release(connection, broken=broken)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def packed(commands: Sequence[Sequence[str | bytes | int]]) -> bytes:
    """The commands as one trip sends them; in C, unlike redis-py's own in an event loop."""
    return b"".join(map(hiredis.pack_command, map(tuple, commands)))  # type: ignore[arg-type]  # its stub knows tuples of one word


def connection_options(timeout_s: float) -> dict[str, Any]:
    """Socket limits so that ``ATTEMPTS`` tries and their pauses end within ``timeout_s``."""
    each = attempt_s(timeout_s)
    return {"socket_timeout": each, "socket_connect_timeout": each, "decode_responses": False}


def attempt_s(timeout_s: float) -> float:
    """How long one of ``ATTEMPTS`` tries may wait, for a connection or for a reply."""
    return 0.8 * timeout_s / ATTEMPTS


def backoff(timeout_s: float) -> ExponentialBackoff:
    """Pauses between the tries: at most a fifth of ``timeout_s`` together."""
    return ExponentialBackoff(cap=timeout_s / 20, base=timeout_s / 100)


def new_id() -> str:
    """An id for a call that may be sent twice, so that Redis acts on it once."""
    return os.urandom(16).hex()


def redis_now_ms(client: Any) -> int:
    """The time by Redis' clock, as scripts write it: clocks of clients and workers differ."""
    return to_ms(client.time())


def to_ms(time: tuple[int, int]) -> int:
    """Milliseconds from the reply to TIME."""
    seconds, micros = time
    return seconds * 1000 + micros // 1000


def run_script(client: Any, script: Script, words: Sequence[str | bytes | int]) -> Any:
    """The script's reply; sends the script's source if the server lacks it.

    Raises:
        TurnmillError: whatever redis-py raised, translated.
    """
    try:
        try:
            return client.execute_command("EVALSHA", script.sha, *words)
        except redis.exceptions.NoScriptError:
            return client.execute_command("EVAL", script.source, *words)
    except redis.RedisError as error:
        raise translate(error, server_name(client)) from error


def server_name(client: Any) -> str:
    """What errors call the server of a URL or of a client: never with a password."""
    if isinstance(client, str):
        # By hand: `urlsplit` refuses several servers when one has an IPv6 address.
        rest = client.split("://", 1)[-1].partition("?")[0]
        return f"Redis at {rest.rpartition('@')[2]}"
    with suppress(AttributeError, KeyError):
        options = client.connection_pool.connection_kwargs
        return f"Redis at {options['host']}:{options['port']}/{options.get('db', 0)}"
    return "Redis"


def is_full(reply: object) -> bool:
    """Whether Redis refused a command because it is at ``maxmemory``."""
    # Inside a script Redis 6.2 reports it as a plain script error: only the text tells.
    return isinstance(reply, redis.OutOfMemoryError) or (
        isinstance(reply, redis.RedisError) and "OOM command not allowed" in str(reply)
    )
