"""``turnmill doctor``: whether everything is in place for agents and workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from turnmill_cli.archive_database import ArchiveUrl, DataDir
from turnmill_cli.doctor.archive_checks import examine_archive, examine_templates
from turnmill_cli.doctor.checks import Check, examine
from turnmill_cli.doctor.parked_and_endpoint_checks import examine_health
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    Target,
    check_redis_url,
)
from turnmill_cli.output import clean, print_json, safe_url, stdout

__all__ = ["register"]

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    as_json: JsonFlag = False,
    url: ArchiveUrl = "",
    data_dir: DataDir = None,
    template_dirs: Annotated[
        str,
        typer.Option(
            metavar="DIR:DIR",
            envvar="TURNMILL_TEMPLATE_DIRS",
            help="Folders with templates, as the workers have them.",
            show_default=False,
        ),
    ] = "",
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Check Redis, broker, workers, archive and templates; exit code 1 when there is a problem."""
    check_redis_url(redis_url)
    target = Target(redis_url, broker_url, namespace)
    target.checked_namespace()
    checks = [
        *examine(target),
        *examine_health(target),
        *examine_archive(target, url, data_dir),
        *examine_templates(template_dirs),
    ]
    healthy = all(check.status != "problem" for check in checks)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print_table(target, checks)
    if not healthy:
        raise typer.Exit(1)


def _print_table(target: Target, checks: Sequence[Check]) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = stdout()
    where = f"Redis {safe_url(target.redis_url)}, broker {safe_url(target.broker)}"
    console.print(clean(where), style="dim", markup=False, soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark, color = _MARKS[check.status]
        found = Text(clean(check.found))
        if check.advice:
            found.append(f"\n→ {clean(check.advice)}", style=color)
        table.add_row(Text(mark, style=color), Text(check.name, style="bold"), found)
    console.print(table)
