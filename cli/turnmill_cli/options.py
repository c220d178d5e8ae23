"""The options all commands share, and the connections they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient
    from turnmill.contract.names import Namespace

__all__ = [
    "DEFAULT_REDIS_URL",
    "BrokerUrl",
    "JsonFlag",
    "NamespaceName",
    "RedisUrl",
    "SessionName",
    "Target",
    "Timeout",
    "Yes",
    "check_redis_url",
]

DEFAULT_REDIS_URL = "redis://localhost:6379/0"
TIMEOUT_S = 5.0

RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis-url", metavar="URL", envvar="TURNMILL_REDIS_URL", help="The state store."
    ),
]
BrokerUrl = Annotated[
    str,
    typer.Option(
        "--broker-url",
        metavar="URL",
        envvar="TURNMILL_BROKER_URL",
        help="The Celery broker; the state store's Redis when not given.",
        show_default=False,
    ),
]
NamespaceName = Annotated[
    str,
    typer.Option(
        "--namespace", metavar="NAME", envvar="TURNMILL_NAMESPACE", help="Whose sessions."
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="The session's name.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="Longest wait for a worker."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a command works.

    Attributes:
        broker_url: empty when it is the state store.
    """

    redis_url: str
    broker_url: str
    namespace: str

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    def client(self, *, hints: bool = False) -> ContextClient:
        """A client of these sessions; one that only looks publishes no hints."""
        from turnmill._sync.client import ContextClient  # noqa: PLC0415
        from turnmill.wake import SilentWaker  # noqa: PLC0415

        check_redis_url(self.redis_url)
        return ContextClient(
            self.redis_url,
            namespace=self.namespace,
            broker=self.broker if hints else SilentWaker(),
            timeout_s=TIMEOUT_S,
        )

    def checked_namespace(self) -> Namespace:
        """The namespace's name.

        Raises:
            InvalidName: it is not one.
        """
        from turnmill.contract.names import namespace  # noqa: PLC0415

        return namespace(self.namespace)

    @contextmanager
    def redis(self) -> Iterator[Any]:
        """A plain Redis client; what it raises is translated to turnmill's errors."""
        import redis  # noqa: PLC0415

        from turnmill.transport import connection_options, translate  # noqa: PLC0415

        check_redis_url(self.redis_url)
        try:
            with redis.Redis.from_url(self.redis_url, **connection_options(TIMEOUT_S)) as client:
                yield client
        except redis.RedisError as error:
            raise translate(error) from error


def check_redis_url(url: str) -> None:
    """Refuse what is no Redis URL, without repeating it.

    Raises:
        typer.BadParameter: exit code 2.
    """
    from redis.connection import parse_url  # noqa: PLC0415

    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:
        raise typer.BadParameter(
            "must be redis://host:port/db, rediss://… or unix://…", param_hint="--redis-url"
        ) from None
