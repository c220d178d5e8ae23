"""URLs of the state store and of the broker, for clients, workers and the command line; no I/O.

::

    redis://[user:password@]host[:port][/db][?option=…]             one Redis (rediss:// with TLS)
    redis+sentinel://[user:password@]host[:port],…/master[/db][?…]   Redis with Sentinel
    redis+cluster://[user:password@]host[:port],…[?…]                Redis Cluster

``rediss+sentinel`` and ``rediss+cluster`` use TLS. User and password are those of the Redis
servers; ``sentinel_username`` and ``sentinel_password`` among the options are those of the
Sentinels. Other options are redis-py's (``ssl_ca_certs`` and so on). No error shows a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from turnmill.contract.errors import InvalidInput

Address = tuple[str, int]
"""Host and port."""

FORMS: Final = (
    "redis://host:port/db, rediss://…, unix://…, redis+sentinel://host:port,host:port/master "
    "or redis+cluster://host:port,host:port"
)
_PORTS: Final = {"sentinel": 26379, "cluster": 6379}
_SPREAD: Final = re.compile(r"(rediss?)\+(sentinel|cluster)\Z")
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+))(?::([0-9]{1,5}))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """Where the state store is.

    Attributes:
        nodes: the Sentinels, or some nodes of the Cluster; none of a single Redis.
        master: the name the Sentinels know the master by.
        login, sentinel_login: ``user:password`` as in the URL, for servers and for Sentinels.
        options: redis-py's, for servers and Sentinels.
        single: the URL itself, of a single Redis.
    """

    kind: Literal["single", "sentinel", "cluster"]
    nodes: tuple[Address, ...] = ()
    master: str = ""
    scheme: str = "redis"
    login: str = field(default="", repr=False)
    sentinel_login: str = field(default="", repr=False)
    db: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    single: str = field(default="", repr=False)

    def server(self, address: Address = ("localhost", 0)) -> str:
        """The URL of one Redis server."""
        if self.kind == "single":
            return self.single
        return _joined(self.scheme, self.login, address, self.db, self.options)

    def sentinel(self, address: Address) -> str:
        """The URL of one Sentinel: the same TLS, and a login of its own."""
        return _joined(self.scheme, self.sentinel_login, address, "", self.options)

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """What redis-py needs to talk to a Sentinel, but where it is."""
        from redis.backoff import NoBackoff  # noqa: PLC0415 - slow, and the help of commands needs none
        from redis.connection import parse_url  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        options = dict(parse_url(self.sentinel(("localhost", 1))))  # type: ignore[no-untyped-call]
        for name in ("host", "port", "connection_class"):
            options.pop(name, None)
        # redis-py would try a Sentinel that is down again and again before it asks the next.
        options["retry"] = Retry(NoBackoff(), 0)
        return options | ({"ssl": True} if self.uses_tls else {})

    @property
    def uses_tls(self) -> bool:
        """Whether servers and Sentinels are reached with TLS."""
        return self.scheme == "rediss"


def store_url(url: str) -> StoreUrl:
    """What a URL of the state store says.

    Raises:
        InvalidInput: it is none; says what is wrong with it, and repeats no part that may be
            secret.
    """
    scheme, mark, rest = url.partition("://")
    spread = _SPREAD.match(scheme)
    if spread is None:
        return _single(url, is_known=bool(mark) and scheme in {"redis", "rediss", "unix"})
    rest, _, query = rest.partition("?")
    places, _, path = rest.partition("/")
    login, _, hosts = places.rpartition("@")
    kind: Any = spread[2]
    nodes = tuple(_address(host, scheme, _PORTS[kind]) for host in hosts.split(","))
    options = dict(parse_qsl(query))
    sentinel = (options.pop("sentinel_username", ""), options.pop("sentinel_password", ""))
    master, _, db = path.partition("/") if kind == "sentinel" else ("", "", path)
    found = StoreUrl(
        kind=kind,
        nodes=nodes,
        master=master,
        scheme=spread[1],
        login=login,
        sentinel_login=":".join(quote(word, safe="") for word in sentinel) if any(sentinel) else "",
        db=_database(options.pop("db", db), scheme),
        options=options,
    )
    if kind == "sentinel" and not master:
        raise InvalidInput(f"{scheme}:// needs the master's name after the hosts: …:26379/mymaster")
    if kind == "cluster" and found.db not in ("", "0"):
        raise InvalidInput(f"{scheme}://: a Redis Cluster has no database but 0")
    _single(found.server(), is_known=True)
    return found


class Broker(NamedTuple):
    """A broker as Celery is told of it."""

    url: str
    transport_options: dict[str, Any]
    tls_options: dict[str, Any] | None = None

    def settings(self, **transport_options: Any) -> dict[str, Any]:
        """Celery's settings for it, with more options of the transport."""
        options = {**transport_options, **self.transport_options}
        found: dict[str, Any] = {"broker_url": self.url, "broker_transport_options": options}
        return found if self.tls_options is None else {**found, "broker_use_ssl": self.tls_options}


def celery_broker(url: str) -> Broker:
    """The broker at this URL; one of Sentinels may be written as the state store's is.

    Raises:
        InvalidInput: it is a Redis Cluster, or the URL is no valid one of Sentinels.
    """
    if not _SPREAD.match(url.partition("://")[0]):
        plain, tls = _broker_tls(url)
        return Broker(plain, {}, tls)
    found = store_url(url)
    if found.kind == "cluster":
        raise InvalidInput(
            "Celery cannot use a Redis Cluster as its broker, which is the state store where no "
            "other is named: name a single Redis, Sentinels or RabbitMQ (TURNMILL_BROKER_URL, "
            "--broker-url, ContextClient(…, broker=…))"
        )
    # Kombu reads the login and the database of each URL, and none of redis-py's options.
    plain = ";".join(_joined("sentinel", found.login, each, found.db, {}) for each in found.nodes)
    options = {"master_name": found.master, "sentinel_kwargs": found.sentinel_options}
    return Broker(plain, options, _broker_tls(found.server())[1])


def _broker_tls(url: str) -> tuple[str, dict[str, Any] | None]:
    if not url.startswith(("rediss", "amqps")) and "ssl_" not in url:
        return url, None
    from turnmill.connection.credentials import with_broker_tls  # noqa: PLC0415 - few ask for TLS

    return with_broker_tls(url)


def _single(url: str, *, is_known: bool) -> StoreUrl:
    from redis.connection import parse_url  # noqa: PLC0415 - as above

    if is_known:
        try:
            parse_url(url)  # type: ignore[no-untyped-call]
        except ValueError:
            pass
        else:
            found = urlsplit(url)
            if found.scheme != "unix":  # redis-py would take database 0
                _database(unquote(found.path).replace("/", ""), found.scheme)
            return StoreUrl(kind="single", single=url)
    raise InvalidInput(f"not a URL of a Redis: it must be {FORMS}")


def _address(host: str, scheme: str, port: int) -> Address:
    found = _HOST.match(host)
    if found is None or int(found[3] or port) > 65_535:  # noqa: PLR2004 - the highest port
        raise InvalidInput(
            f"{scheme}:// must be followed by hosts with ports, separated by commas: one of them "
            "is empty or not host:port (is a character of the password not percent-encoded?)"
        )
    return found[1] or found[2], int(found[3] or port)


def _database(text: str, scheme: str) -> str:
    if text and not text.isdecimal():
        raise InvalidInput(f"{scheme}://: a database is a number")
    return text


def _joined(scheme: str, login: str, address: Address, db: str, options: Mapping[str, str]) -> str:
    host, port = address
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    query = f"?{urlencode(options)}" if options else ""
    return f"{scheme}://{login}{'@' if login else ''}{place}{f'/{db}' if db else ''}{query}"
