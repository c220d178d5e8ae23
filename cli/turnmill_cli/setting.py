"""Options that the environment sets too."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["setting"]

PANEL = "Connection"


def setting(
    option: str, metavar: str, told: str, *, panel: str = PANEL, shown: bool = False
) -> Any:
    """An option that a variable of the environment sets too: ``--redis-url``, TURNMILL_REDIS_URL.

    ``shown`` says whether the help names its default.
    """
    variable = option.removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        option,
        metavar=metavar,
        envvar=f"TURNMILL_{variable}",
        help=told,
        show_default=shown,
        rich_help_panel=panel,
    )
