"""Connections to whichever server the Sentinels say is the master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from turnmill.connection.transport import attempt_s
from turnmill.connection.urls import Address, StoreUrl


class Sentinels:
    """Some Sentinels, the one that answered last first; shared by the connections of a pool."""

    def __init__(self, store: StoreUrl, timeout_s: float) -> None:
        self.name: str = store.master
        self.urls: list[str] = [store.sentinel(node) for node in store.nodes]
        # One that does not answer must leave time for the others, and for the master.
        each_s = attempt_s(timeout_s) / (len(self.urls) + 1)
        self.options: dict[str, float] = {
            "socket_timeout": each_s,
            "socket_connect_timeout": each_s,
        }

    @property
    def question(self) -> tuple[str, ...]:
        """Asks a Sentinel for the master's address."""
        return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)

    def heard(self, url: str, reply: Any) -> Address | None:
        """The address in a Sentinel's reply; None when it does not know the master."""
        if not reply:
            return None
        self.urls = [url, *(each for each in self.urls if each != url)]
        host, port = (each.decode() if isinstance(each, bytes) else each for each in reply)
        return host, int(port)

    def nobody(self) -> redis.ConnectionError:
        """The error when none knows."""
        return redis.ConnectionError(f"no Sentinel says where the master {self.name!r} is")

    def master(self) -> Address:
        """The master's address, from the first Sentinel that knows it.

        Raises:
            redis.ConnectionError: none answers, or none knows it.
        """
        for url in self.urls:
            with redis.Redis.from_url(url, **self.options) as client:
                connection: Any = client.connection_pool.make_connection()
            try:
                connection.connect()
                connection.send_command(*self.question)
                found = self.heard(url, connection.read_response())
            except redis.RedisError:
                continue
            finally:
                connection.disconnect()
            if found is not None:
                return found
        raise self.nobody()


def is_master(hello: Any) -> bool:
    """Whether the reply to HELLO is a master's."""
    flat = (
        [*hello] if isinstance(hello, list) else [each for pair in hello.items() for each in pair]
    )
    words = [each.encode() if isinstance(each, str) else each for each in flat]
    return dict(zip(words[::2], words[1::2], strict=True)).get(b"role") == b"master"


def is_demoted(error: redis.ResponseError) -> bool:
    """Whether the server has become a replica since it was connected to."""
    return any(word in str(error) for word in ("READONLY", "read only replica", "UNBLOCKED"))


def not_master() -> redis.ConnectionError:
    """The error that has the next attempt ask the Sentinels again."""
    return redis.ConnectionError("the server is not the master, or no longer")


class _ToMaster:
    """Mixed into a redis-py connection: each time it connects, it asks where to."""

    host: str
    port: int

    def __init__(self, *, find: Callable[[], Address], **options: Any) -> None:
        super().__init__(**options)
        self._find = find
        self.redis_connect_func: Any = _introduced

    def _connect(self) -> Any:
        self.host, self.port = self._find()
        return super()._connect()  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """The reply; a server that was demoted is a lost connection."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            if not is_demoted(error):
                raise
            self.disconnect()  # type: ignore[attr-defined]
            raise not_master() from error


class MasterConnection(_ToMaster, redis.Connection):
    """A connection to the master."""


class TlsMasterConnection(_ToMaster, redis.SSLConnection):
    """A connection to the master, with TLS."""


def master_connection(store: StoreUrl) -> type[redis.Connection]:
    """The class of connections to a master, with TLS where the URL asks for it."""
    return TlsMasterConnection if store.uses_tls else MasterConnection


def _introduced(connection: Any) -> None:
    """Log in, and see that a late Sentinel did not send us to what is a replica by now."""
    connection.on_connect()
    connection.send_command("HELLO", check_health=False)  # whatever the user's ACL allows
    if not is_master(connection.read_response()):
        raise not_master()
