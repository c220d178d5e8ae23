"""``turnmill forget SESSION``: remove it from Redis."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmill.cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
)
from turnmill.cli.output import count

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(forget)


def forget(
    session: SessionName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Remove a session and all its turns from Redis; there is no way back."""
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.info(session)
        if not yes:
            turns = count(found.last_seq, "turn")
            typer.confirm(f"Forget {session} with its {turns}?", abort=True)
        client.forget(session)
    typer.echo(f"forgot {session}")
