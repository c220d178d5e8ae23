"""``turnmill doctor``: whether everything is in place for agents and workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.options import AllNamespaces, Connection, JsonFlag
from turnmill_cli.output import clean, field_table, print_json, print_line, safe_url, stdout

if TYPE_CHECKING:
    from turnmill_cli.doctor.checks import Check

_TokenizerDir = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        envvar="TURNMILL_TOKENIZER_DIR",
        help="The folder with tokenizers, as it is set for the workers.",
        show_default=False,
    ),
]

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(
    archive: ArchiveDatabase,
    connection: Connection,
    as_json: JsonFlag = False,
    template_dirs: Annotated[
        str,
        typer.Option(
            metavar="DIR:DIR",
            envvar="TURNMILL_TEMPLATE_DIRS",
            help="Folders with templates, as they are set for the workers.",
            show_default=False,
        ),
    ] = "",
    tokenizer_dir: _TokenizerDir = "",
    everywhere: AllNamespaces = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 on a warning, too: for cron.")
    ] = False,
) -> None:
    """Check Redis, broker, workers, models, archive and templates. Exits with 1 on a problem."""
    from turnmill_cli.doctor.checks import every_check  # noqa: PLC0415 - slow, and the help needs none

    checks = list(
        every_check(connection, archive, template_dirs, tokenizer_dir, everywhere=everywhere)
    )
    bad = ("warning", "problem") if strict else ("problem",)
    healthy = all(check.status not in bad for check in checks)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print_table(connection, checks)
    if not healthy:
        raise typer.Exit(1)


def _print_table(connection: Connection, checks: Sequence[Check]) -> None:
    where = f"Redis {safe_url(connection.redis_url)}, broker {safe_url(connection.broker)}"
    print_line(where, "dim")
    table = field_table()
    table.add_column(overflow="fold")
    for check in checks:
        mark, color = _MARKS[check.status]
        found = Text(clean(check.found))
        if check.advice:
            found.append(f"\n→ {clean(check.advice)}", style=color)
        table.add_row(Text(mark, style=color), Text(check.name, style="bold"), found)
    stdout().print(table)
