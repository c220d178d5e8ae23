"""``turnmill sessions``: all sessions of a namespace, the most recently pushed first."""

from __future__ import annotations

from turnmill.contract.info import ContextInfo
from turnmill.transport import redis_now_ms
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

__all__ = ["sessions"]


def sessions(connection: Connection, limit: Limit = 50, as_json: JsonFlag = False) -> None:
    """List sessions with their turns and tokens, the most recently pushed first."""
    with connection.redis() as view:
        listed = dict(view.newest_sessions())
        found = list(view.infos(list(listed)[: limit or None]))
        now_ms = redis_now_ms(view.client)
    rows = [(each, listed[each.session]) for each in found]
    if as_json:
        print_json([{**as_dict(each), "last_push_ms": int(at)} for each, at in rows])
    elif not rows:
        print_line("no sessions")
    else:
        _print_table(rows, now_ms)
        if hidden := len(listed) - len(list(listed)[: limit or None]):
            stdout().print(f"… and {hidden:,} more: --limit 0 lists all", style="dim")


def _print_table(rows: list[tuple[ContextInfo, float]], now_ms: int) -> None:
    numbers = map(number_column, ("turns", "tokens / limit", "version", "last push"))
    table = plain_table("session", *numbers)
    for found, at_ms in rows:
        table.add_row(
            found.session,
            f"{found.last_seq:,}",
            f"{found.usage.total:,} / {found.limits.hard:,}",
            str(found.version),
            _ago((now_ms - at_ms) / 1000),
            style=None if found.under_limit else "yellow",
        )
    print_table(table)
    stdout().print(count(len(rows), "session"), style="dim")


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"
