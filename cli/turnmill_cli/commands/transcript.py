"""``turnmill transcript`` and ``turnmill export``: a whole session, for people and for programs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from turnmill.client.transcript import markdown
from turnmill.contract.errors import UnknownSession
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import CommandFailed, count, print_note, print_text
from turnmill_cli.progress import asking

__all__ = ["export", "transcript", "whole_session", "write_file"]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
]


def transcript(
    session: SessionName,
    connection: Connection,
    output: Output = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """Print the whole session from its first turn as markdown, also what was compacted.

    With --json it is what `turnmill export` prints.
    """
    found = whole_session(connection, session, timeout)
    _give(found.model_dump_json() if as_json else markdown(found), found, output)


def export(
    session: SessionName,
    connection: Connection,
    output: Output = None,
    as_json: JsonFlag = False,  # noqa: ARG001 - it never prints anything else
    timeout: Timeout = 30.0,
) -> None:
    """Print the whole session as JSON, which `turnmill visualize` and `Trajectory` can read."""
    transcript(session, connection, output, True, timeout)


def whole_session(connection: Connection, session: str, timeout_s: float) -> Trajectory:
    """The session's trajectory, with the context that its agent reads now unless it has expired.

    Raises:
        UnknownSession: neither Redis nor the archive has it.
        NotAnswered: no worker answered in time.
    """
    with connection.client(hints=True) as client, asking(timeout_s):
        found = client.trajectory(session, timeout_s=timeout_s)
        with suppress(UnknownSession):  # expired: only the archive has it
            messages = client.read(session).messages
            found = found.model_copy(update={"context": tuple(messages)})
    return found


def _give(text: str, found: Trajectory, output: Path | None) -> None:
    if output is None:
        print_text(text)
        return
    write_file(output, text)
    print_note(f"wrote {count(len(found.turns), 'turn')} to {output}")


def write_file(path: Path, text: str) -> None:
    """Write the text as UTF-8, with ``?`` for half characters.

    Raises:
        CommandFailed: names the file and the reason.
    """
    try:
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
