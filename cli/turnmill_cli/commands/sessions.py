"""``turnmill sessions``: all sessions of a namespace, the most recently pushed first."""

from __future__ import annotations

from typing import Annotated, Any

import redis
import typer

from turnmill.commands import Commands
from turnmill.contract.errors import UnknownSession
from turnmill.contract.info import ContextInfo
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES
from turnmill.transport import redis_now_ms
from turnmill_cli.commands.info import as_dict
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    Target,
)
from turnmill_cli.output import count, print_json, stdout

__all__ = ["register"]

CHUNK = 200
"""Sessions per round trip."""

Row = tuple[ContextInfo, float]
"""A session and when it was last pushed to, in ms since the epoch."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sessions)


def sessions(
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 50,
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """List sessions with their turns and tokens, the most recently pushed first."""
    target = Target(redis_url, broker_url, namespace)
    commands = Commands.of(target.checked_namespace(), DEFAULT_MAX_TURN_BYTES)
    with target.redis() as client:
        listed = _newest_first(client, commands)
        rows = _rows(client, commands, listed[: limit or None])
        now_ms = redis_now_ms(client)
    if as_json:
        print_json([{**as_dict(found), "last_push_ms": int(at)} for found, at in rows])
        return
    _print_table(rows, now_ms)
    if hidden := len(listed) - len(listed[: limit or None]):
        stdout().print(f"… and {hidden:,} more: --limit 0 lists all", style="dim")


def _newest_first(client: Any, commands: Commands) -> list[tuple[str, float]]:
    with client.pipeline(transaction=False) as pipe:
        for key in commands.index_keys():
            pipe.zrange(key, 0, -1, withscores=True)
        found = [entry for reply in pipe.execute() for entry in reply]
    return [(name.decode(), at) for name, at in sorted(found, key=lambda e: (-e[1], e[0]))]


def _rows(client: Any, commands: Commands, listed: list[tuple[str, float]]) -> list[Row]:
    """The sessions' numbers, a round trip per ``CHUNK``; what expired meanwhile is absent."""
    rows: list[Row] = []
    for start in range(0, len(listed), CHUNK):
        chunk = listed[start : start + CHUNK]
        calls = [commands.info(name) for name, _ in chunk]
        client.script_load(calls[0].script.source)
        with client.pipeline(transaction=False) as pipe:
            for call in calls:
                pipe.execute_command("EVALSHA", call.script.sha, *call.words)
            replies = pipe.execute(raise_on_error=False)
        for (name, at), reply in zip(chunk, replies, strict=True):
            if isinstance(reply, redis.RedisError):
                raise reply
            try:
                rows.append((commands.context_info(name, reply), at))
            except UnknownSession:
                continue
    return rows


def _print_table(rows: list[Row], now_ms: int) -> None:
    from rich.table import Table  # noqa: PLC0415

    if not rows:
        stdout().print("no sessions")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("session", overflow="fold")
    for name in ("turns", "tokens / limit", "version", "last push"):
        table.add_column(name, justify="right", no_wrap=True)
    for found, at in rows:
        table.add_row(
            found.session,
            f"{found.last_seq:,}",
            f"{found.usage.total:,} / {found.limits.hard:,}",
            str(found.version),
            _ago((now_ms - at) / 1000),
            style=None if found.under_limit else "yellow",
        )
    stdout().print(table, markup=False)
    stdout().print(count(len(rows), "session"), style="dim")


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"
