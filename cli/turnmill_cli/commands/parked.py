"""``turnmill parked`` and ``turnmill retry``: sessions whose compactions keep failing."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmill.contract.errors import UnknownSession
from turnmill_cli.options import Connection, JsonFlag
from turnmill_cli.output import (
    clean,
    count,
    number_column,
    plain_table,
    print_json,
    print_line,
    print_note,
    print_table,
    stdout,
    when,
    word_column,
)

__all__ = ["parked", "retry"]


def parked(connection: Connection, as_json: JsonFlag = False) -> None:
    """List the sessions whose compactions keep failing: since when, how often, and why."""
    with connection.client() as client:
        found = client.parked()
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
    elif not found:
        print_line(f"no session of {connection.namespace} is parked")
    else:
        columns = (number_column("parked since"), number_column("failures"), word_column("error"))
        table = plain_table("session", *columns, number_column("tokens"))
        for each in found:
            cells = (when(each.since_ms), str(each.failures), clean(each.error), f"{each.tokens:,}")
            table.add_row(each.session, *cells)
        print_table(table)
        stdout().print(count(len(found), "session"), style="dim")


def retry(
    connection: Connection,
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="SESSION…", help="The names of the sessions.", show_default=False),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Retry every parked session.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Have parked sessions compacted again, when the cause of their failures is fixed."""
    if bool(sessions) == everyone:
        raise typer.BadParameter("give the names of sessions, or --all", param_hint="SESSION…")
    with connection.client(hints=True) as client:
        names = [each.session for each in client.parked()] if everyone else sessions or []
        tried: list[str] = []
        unknown = []
        for name in names:
            try:
                if client.retry(name):
                    tried.append(name)
                elif not everyone:
                    print_note(f"{name} is not parked")
            except UnknownSession as error:
                # A wrong name in a list must not keep the others from being retried.
                unknown.append(error)
    if as_json:
        print_json({"retried": tried})
    else:
        print_line(f"{count(len(tried), 'session')} will be compacted again")
    if unknown and not everyone:
        raise unknown[0]
