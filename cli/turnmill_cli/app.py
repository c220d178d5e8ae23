"""The typer app: where every command is, and under which heading of the help it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from turnmill.contract.errors import TurnmillError
from turnmill_cli import INTERRUPTED
from turnmill_cli.options import CommandApp
from turnmill_cli.output import print_error

__all__ = ["COMMANDS", "app"]

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "up": "local.command:up",
        "demo": "demo.command:demo",
        "replay": "replay.command:replay",
        "evaluate": "evaluate.command:evaluate_app",
        "doctor": "doctor.command:doctor",
        "fake-llm": "commands.fake_llm:fake_llm_app",
    },
    "Sessions": {
        "open": "commands.open_session:open_session",
        "push": "commands.push:push",
        "read": "commands.read:read",
        "sessions": "commands.sessions:sessions",
        "info": "commands.info:info",
        "parked": "commands.parked:parked",
        "retry": "commands.parked:retry",
        "erase": "commands.erase:erase",
        "forget": "forget.command:forget",
    },
    "Compact, and go back": {
        "compact": "commands.compact:compact",
        "clear": "commands.compact:clear",
        "checkpoint": "commands.checkpoints:checkpoint",
        "checkpoints": "commands.checkpoints:checkpoints",
        "rollback": "commands.checkpoints:rollback",
    },
    "Look back": {
        "transcript": "commands.transcript:transcript",
        "export": "commands.transcript:export",
        "rules": "commands.rules:rules",
        "history": "commands.history:history",
        "diff": "diff.command:diff",
        "visualize": "visualize.command:visualize",
    },
    "For a whole namespace": {
        "ground": "commands.memories:ground",
        "remember": "commands.memories:remember",
        "policies": "commands.policies:policies_app",
        "templates": "commands.templates:templates_app",
        "archive": "commands.archive:archive_app",
    },
}
"""By heading and name: the module of the command, and its function or its app."""


class _LazyCommands(Mapping[str, Any]):
    """The commands by name. A command's module is imported when the command is looked up.

    `turnmill push` in a loop must not import what `turnmill evaluate` needs.
    """

    _places: ClassVar = {
        name: (heading, place)
        for heading, commands in COMMANDS.items()
        for name, place in commands.items()
    }

    def __getitem__(self, name: str) -> Any:
        heading, place = self._places[name]
        module, _, attribute = place.partition(":")
        found = getattr(import_module(f"turnmill_cli.{module}"), attribute)
        if not isinstance(found, CommandApp):
            function, found = found, CommandApp()
            found.command()(function)
        made: Any = typer.main.get_command(found)
        made.name, made.rich_help_panel = name, heading
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Root(TyperGroup):
    """Turns what a command raises into one line and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)

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
    cls=_Root,
    help="Background context compaction for LLM agents, on Redis and Celery.",
    epilog="Start with `turnmill up` in one terminal and `turnmill demo` in another.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals hold conversations
    add_completion=False,
)
app.callback()(lambda: None)  # typer makes no group without it
