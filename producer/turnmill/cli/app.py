"""The typer app: every command's module adds itself."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from turnmill.cli import (
    INTERRUPTED,
    demo,
    doctor,
    forget,
    info,
    open_,
    push,
    read,
    replay,
    sessions,
    templates,
    up,
)
from turnmill.cli.output import print_error
from turnmill.contract.errors import TurnmillError

__all__ = ["app"]


class _Commands(TyperGroup):
    """Turns what a command raises into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TurnmillError as error:
            print_error(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="turnmill",
    cls=_Commands,
    help="Background context compaction for LLM agents, on Redis and Celery.",
    epilog="Start with `turnmill up` in one terminal and `turnmill demo` in another.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals hold conversations
    add_completion=False,
)

for command in (up, demo, replay, push, read, sessions, info, open_, forget, doctor, templates):
    command.register(app)
