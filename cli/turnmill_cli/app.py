"""The typer app: every command's module adds itself."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from turnmill.contract.errors import TurnmillError
from turnmill_cli import INTERRUPTED
from turnmill_cli.commands import (
    archive,
    checkpoints,
    compact,
    fake_llm,
    history,
    info,
    memories,
    parked,
    policies,
    push,
    read,
    sessions,
    templates,
    transcript,
)
from turnmill_cli.commands import open_session as open_
from turnmill_cli.demo import command as demo
from turnmill_cli.diff import command as diff
from turnmill_cli.doctor import command as doctor
from turnmill_cli.evaluate import command as evaluate
from turnmill_cli.forget import command as forget
from turnmill_cli.local import command as up
from turnmill_cli.output import print_error
from turnmill_cli.replay import command as replay
from turnmill_cli.visualize import command as visualize

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

PANELS = {
    "Run": (up, demo, replay, evaluate, doctor, fake_llm),
    "Sessions": (open_, push, read, sessions, info, parked, forget),
    "Compact, and go back": (compact, checkpoints),
    "Look back": (transcript, history, diff, visualize),
    "For a whole namespace": (memories, policies, templates, archive),
}
"""Under which heading of the help the commands of each module stand."""


def _register() -> None:
    for panel, modules in PANELS.items():
        commands, groups = len(app.registered_commands), len(app.registered_groups)
        for module in modules:
            module.register(app)
        for command in app.registered_commands[commands:]:
            command.rich_help_panel = panel
        for group in app.registered_groups[groups:]:
            group.rich_help_panel = panel


_register()
