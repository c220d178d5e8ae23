"""``turnmill visualize SESSION|FILE``: a session as one HTML page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from turnmill.contract.trajectory import Trajectory
from turnmill.contract.turns import explain
from turnmill_cli.commands.turns import whole_session, write_file
from turnmill_cli.options import Connection, JsonFlag, Timeout
from turnmill_cli.output import WrongUsage, print_json, print_line, print_note

STDOUT = "-"

_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file; - is stdout. Without this option, SESSION.html here, or the "
        "name of FILE with .html.",
        show_default=False,
    ),
]


def visualize(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|FILE",
            help="The session's name, or a file that `turnmill export` wrote.",
            show_default=False,
        ),
    ],
    connection: Connection,
    output: Output = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """Write a session as one HTML page: its tokens, compactions, context and turns.

    The page holds the whole conversation and loads nothing. A session needs a running worker,
    which brings its turns from the archive. A file needs nothing.
    """
    from turnmill_cli.visualize import page  # noqa: PLC0415 - jinja2 is slow to import

    file = Path(subject)
    if file.is_file():
        found, default = _of_file(file), file.with_suffix(".html")
    elif file.suffix == ".json":
        raise WrongUsage(f"{subject}: no such file")
    else:
        found = whole_session(connection, subject, timeout)
        default = Path(_NOT_IN_FILE_NAMES.sub("_", subject) + ".html")
        if not found.context:
            print_note(f"{subject} is no longer in Redis: this page shows what the archive has")
    html = page(found)
    if str(output) == STDOUT:
        sys.stdout.buffer.write(html.encode())
    else:
        write_file(output or default, html)
        written = {"file": str(output or default), "turns": len(found.turns)}
        print_json(written) if as_json else print_line(str(output or default))


def _of_file(file: Path) -> Trajectory:
    try:
        return Trajectory.model_validate_json(file.read_bytes())
    except ValidationError as error:
        # Not chained: pydantic's error carries the input, which is the conversation.
        raise WrongUsage(f"{file}: not a trajectory: {explain(error)}") from None
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from error
