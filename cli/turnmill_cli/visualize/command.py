"""``turnmill visualize SESSION|FILE``: a session as one HTML page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from turnmill.contract.errors import UnknownSession
from turnmill.contract.trajectory import Trajectory
from turnmill.contract.turns import explain
from turnmill_cli.options import DEFAULT_REDIS_URL, BrokerUrl, NamespaceName, RedisUrl, Target
from turnmill_cli.output import CommandFailed, print_note

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient

__all__ = ["register"]

STDOUT = "-"

_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(visualize)


def visualize(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|FILE",
            help="The session's name, or a file with a trajectory as JSON.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write; - for stdout. Else SESSION.html here, or beside FILE.",
            show_default=False,
        ),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a worker.")
    ] = 30.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Write a session as one HTML page: its tokens, compactions, context and turns.

    The page holds all of the conversation and loads nothing. A session needs a running worker,
    which brings its turns from the archive; a file needs nothing.
    """
    from turnmill_cli.visualize import page  # noqa: PLC0415 - other commands need no jinja2

    file = Path(subject)
    if file.is_file():
        found, default = _of_file(file), file.with_suffix(".html")
    elif file.suffix == ".json":
        raise CommandFailed(f"{subject}: no such file")
    else:
        with Target(redis_url, broker_url, namespace).client(hints=True) as client:
            found = _of_session(client, subject, timeout_s)
        default = Path(_NOT_IN_FILE_NAMES.sub("_", subject) + ".html")
    _write(page(found), output or default)


def _of_file(file: Path) -> Trajectory:
    try:
        return Trajectory.model_validate_json(file.read_bytes())
    except ValidationError as error:
        # Not chained: pydantic's error carries the input, which is the conversation.
        raise CommandFailed(f"{file}: not a trajectory: {explain(error)}") from None
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from error


def _of_session(client: ContextClient, session: str, timeout_s: float) -> Trajectory:
    """The trajectory with the context as it is read now; without one when it has expired."""
    found = client.trajectory(session, timeout_s=timeout_s)
    try:
        context = client.read(session)
    except UnknownSession:
        print_note(f"{session} has expired in Redis: the page is made from the archive alone")
        return found
    return found.model_copy(update={"context": tuple(context.messages)})


def _write(html: str, output: Path) -> None:
    body = html.encode()
    if str(output) == STDOUT:
        sys.stdout.buffer.write(body)
        return
    try:
        output.write_bytes(body)
    except OSError as error:
        raise CommandFailed(f"{output}: {error.strerror}") from error
    typer.echo(str(output))
