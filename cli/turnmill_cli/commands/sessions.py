"""``turnmill sessions``: all sessions of a namespace, the most recently pushed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnmill.contract.results import ContextInfo
from turnmill_cli.commands.info import as_dict
from turnmill_cli.options import Connection, JsonFlag, Limit
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

__all__ = ["ago", "sessions"]


def sessions(
    connection: Connection,
    limit: Limit = 50,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List those of every namespace.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List sessions with their turns and tokens, the most recently pushed first."""
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415 - slow, and the help needs none

    with connection.redis() as view:
        views = _views(view) if everywhere else [view]
        listed = [(at, name, each) for each in views for name, at in each.newest_sessions()]
        listed.sort(key=lambda entry: -entry[0])
        shown = listed[: limit or None]
        found = {
            (info.namespace, info.session): info
            for each in views
            for info in each.infos([name for _, name, of in shown if of is each])
        }
        now_ms = redis_now_ms(view.client)
    rows = [
        (found[view.namespace, name], at)
        for at, name, view in shown
        if (view.namespace, name) in found
    ]
    if as_json:
        print_json([{**as_dict(each), "last_push_ms": int(at)} for each, at in rows])
    elif not rows:
        print_line("no sessions" if everywhere else _none_in(view.namespace))
    else:
        _print_table(rows, now_ms, with_namespaces=everywhere)
        if hidden := len(listed) - len(shown):
            stdout().print(f"… and {hidden:,} more: --limit 0 lists all", style="dim")


def _none_in(namespace: str) -> str:
    return f"no sessions in namespace {namespace}; `turnmill sessions -A` lists those of all"


def _views(view: RedisView) -> list[RedisView]:
    from turnmill_cli.namespaces_view import all_namespaces  # noqa: PLC0415 - as above
    from turnmill_cli.redis_view import RedisView  # noqa: PLC0415

    return [RedisView(view.client, name) for name in all_namespaces(view.client)]


def _print_table(
    rows: list[tuple[ContextInfo, float]], now_ms: int, *, with_namespaces: bool
) -> None:
    numbers = map(number_column, ("turns", "tokens / limit", "version", "last push"))
    table = plain_table(*(["namespace"] if with_namespaces else []), "session", *numbers)
    for found, at_ms in rows:
        table.add_row(
            *([found.namespace] if with_namespaces else []),
            found.session,
            f"{found.last_seq:,}",
            f"{found.usage.total:,} / {found.limits.hard:,}",
            str(found.version),
            ago((now_ms - at_ms) / 1000),
            style=None if found.under_limit else "yellow",
        )
    print_table(table)
    stdout().print(count(len(rows), "session"), style="dim")


def ago(seconds: float) -> str:
    """``2 h ago``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"
