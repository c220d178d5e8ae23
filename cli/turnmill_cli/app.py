"""The typer app: where every command is, and under which heading of the help it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from turnmill.contract.errors import TurnmillError
from turnmill_cli import INTERRUPTED
from turnmill_cli.output import exit_code, print_error

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "up": "local.up:up",
        "demo": "demo:demo",
        "replay": "replay:replay",
        "evaluate": "evaluate.command:evaluate_app",
        "doctor": "doctor.command:doctor",
        "top": "fleet:top",
        "ready": "commands.ready:ready",
        "flower": "commands.flower:flower",
        "serve": "commands.serve:serve",
        "mcp": "commands.serve:mcp",
        "fake-llm": "commands.fake_llm:fake_llm_app",
    },
    "Sessions": {
        "open": "commands.sessions:open_session",
        "push": "commands.turns:push",
        "read": "commands.turns:read",
        "sessions": "commands.sessions:sessions",
        "namespaces": "commands.sessions:namespaces",
        "usage": "fleet:usage",
        "info": "commands.sessions:info",
        "parked": "commands.compactions:parked",
        "retry": "commands.compactions:retry",
        "erase": "commands.erase:erase",
        "forget": "commands.erase:forget",
    },
    "Compact, and go back": {
        "compact": "commands.compactions:compact",
        "clear": "commands.compactions:clear",
        "checkpoint": "commands.compactions:checkpoint",
        "checkpoints": "commands.compactions:checkpoints",
        "rollback": "commands.compactions:rollback",
        "rewind": "commands.compactions:rewind",
        "fork": "commands.compactions:fork",
    },
    "Look back": {
        "transcript": "commands.turns:transcript",
        "export": "commands.turns:export",
        "rules": "commands.history:rules",
        "history": "commands.history:history",
        "diff": "commands.history:diff",
        "visualize": "visualize.command:visualize",
    },
    "For a whole namespace": {
        "ground": "commands.memories:ground",
        "remember": "commands.memories:remember",
        "policies": "commands.policies:policies_app",
        "templates": "commands.templates:templates_app",
        "archive": "commands.archive:archive_app",
        "keys": "commands.serve:keys_app",
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
        from turnmill_cli.options import CommandApp  # noqa: PLC0415 - the help of all needs no client

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

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def listed(self, name: str) -> Any:
        """The command as a list shows it: its name, its heading and what it does."""
        heading, place = self._places[name]
        told = _first_paragraph(place)
        made: Any = TyperCommand(name, help=told, hidden=not told, rich_help_panel=heading)
        return made


def _first_paragraph(place: str) -> str:
    """What a command's docstring begins with, or its app's help; ``""`` for none.

    Read, not imported: the help of all commands, and completion, would import all that they need.
    """
    module, _, attribute = place.partition(":")
    source = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py").read_text()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) if name == attribute:
                told = ast.get_docstring(node) or ""
                return " ".join(told.partition("\n\n")[0].split())
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=words)) if (
                name == attribute
            ):
                return next((str(ast.literal_eval(w.value)) for w in words if w.arg == "help"), "")
    return ""


class _Root(TyperGroup):
    """Turns what a command raises into one line and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # Who resolves a command runs it, or asks for its own help; who does not makes a list.
        del ctx
        return self.commands.listed(cmd_name) if cmd_name in self.commands else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and self.commands[found.name], rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TurnmillError as error:
            print_error(error)
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="turnmill",
    cls=_Root,
    help="Background context compaction for LLM agents, on Redis and Celery.",
    epilog="Start with `turnmill up` in one terminal and `turnmill demo` in another.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,  # locals hold conversations
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"turnmill {metadata.version('turnmill')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    del version
