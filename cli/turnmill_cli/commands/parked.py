"""``turnmill parked`` and ``turnmill retry``: sessions whose compactions keep failing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from turnmill.contract.errors import UnknownSession
from turnmill.contract.results import ParkedSession
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    Target,
)
from turnmill_cli.output import clean, count, print_json, print_line, stdout, when

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(parked)
    app.command()(retry)


def parked(
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """List sessions whose compactions keep failing: since when, how often, and why."""
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.parked()
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
    elif not found:
        print_line(f"no session of {namespace} is parked")
    else:
        _print_table(found)


def retry(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="SESSION…", help="Their names.", show_default=False),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All that are parked.")] = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Have parked sessions compacted again, once the cause of their failures is mended."""
    if bool(sessions) == everyone:
        raise typer.BadParameter("name sessions, or say --all", param_hint="SESSION…")
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        names = [each.session for each in client.parked()] if everyone else sessions or []
        tried, unknown = 0, []
        for name in names:
            try:
                if client.retry(name):
                    tried += 1
                elif not everyone:
                    print_line(f"{name} is not parked", "yellow")
            except UnknownSession as error:
                # The others of a list should not have to wait for a typing error's correction.
                unknown.append(error)
    print_line(f"{count(tried, 'session')} will be compacted again")
    if unknown and not everyone:
        raise unknown[0]


def _print_table(found: Sequence[ParkedSession]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("session", overflow="fold")
    for name in ("parked since", "failures", "error", "tokens"):
        table.add_column(name, justify="left" if name == "error" else "right", no_wrap=True)
    for each in found:
        table.add_row(
            each.session,
            when(each.since_ms),
            str(each.failures),
            clean(each.error),
            f"{each.tokens:,}",
        )
    stdout().print(table, markup=False)
    stdout().print(count(len(found), "session"), style="dim")
