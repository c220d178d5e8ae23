"""``turnmill namespaces``: which there are, and how many sessions each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnmill_cli.commands.sessions import ago
from turnmill_cli.options import Connection, JsonFlag
from turnmill_cli.output import (
    count,
    number_column,
    plain_table,
    print_json,
    print_line,
    print_table,
    stdout,
)

if TYPE_CHECKING:
    from turnmill_cli.redis_view import RedisView

__all__ = ["namespaces"]


def namespaces(connection: Connection, as_json: JsonFlag = False) -> None:
    """List the namespaces of this Redis, the most recently pushed to first."""
    # These are slow to import, and the help needs none.
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415
    from turnmill_cli.namespaces_view import all_namespaces  # noqa: PLC0415
    from turnmill_cli.redis_view import RedisView  # noqa: PLC0415

    with connection.redis() as view:
        found = [_row(RedisView(view.client, name)) for name in all_namespaces(view.client)]
        now_ms = redis_now_ms(view.client)
    found.sort(key=lambda row: -row["last_push_ms"])
    if as_json:
        print_json(found)
    elif not found:
        print_line("no namespaces")
    else:
        table = plain_table("namespace", *map(number_column, ("sessions", "parked", "last push")))
        for row in found:
            at_ms = row["last_push_ms"]
            pushed = ago((now_ms - at_ms) / 1000) if at_ms else "–"
            table.add_row(row["namespace"], f"{row['sessions']:,}", f"{row['parked']:,}", pushed)
        print_table(table)
        stdout().print(count(len(found), "namespace"), style="dim")


def _row(view: RedisView) -> dict[str, Any]:
    sessions, parked = view.sizes("index", "parked")
    newest = view.newest_sessions(1)
    at_ms = int(newest[0][1]) if newest else 0
    return {
        "namespace": view.namespace,
        "sessions": sessions,
        "parked": parked,
        "last_push_ms": at_ms,
    }
