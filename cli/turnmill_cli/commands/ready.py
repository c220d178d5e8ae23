"""``turnmill ready``: whether the worker on this machine can work."""

from __future__ import annotations

import http.client
from typing import Annotated

import typer

from turnmill_cli.options import JsonFlag, MetricsHost, MetricsPort
from turnmill_cli.output import CommandFailed, print_json


def ready(
    port: MetricsPort = 0,
    host: MetricsHost = "127.0.0.1",
    *,
    alive: Annotated[bool, typer.Option("--alive", help="Only whether it answers.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a worker whether it can work: Redis and the broker answer, and it is not stopping.

    Exits with 1 if not; for health checks of containers.
    """
    if not port:
        raise CommandFailed("no port: set TURNMILL_METRICS_PORT for the worker and this command")
    where = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - where it listens
    connection = http.client.HTTPConnection(where, port, timeout=10)
    try:
        connection.request("GET", "/healthz" if alive else "/readyz")
        answer = connection.getresponse()
        told = answer.read().decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(
            f"no worker answers at {where}:{port} ({type(error).__name__})"
        ) from None
    lines = [line.rpartition(" ") for line in told.splitlines()]
    print_json({name: each for name, _, each in lines}) if as_json else typer.echo(told)
    if answer.status != http.client.OK:
        raise typer.Exit(1)
