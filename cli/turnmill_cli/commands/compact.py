"""``turnmill compact`` and ``turnmill clear``: make a context small now."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout, Yes
from turnmill_cli.output import confirm, count, print_json, print_line
from turnmill_cli.progress import asking

__all__ = ["clear", "compact"]


def compact(
    session: SessionName,
    connection: Connection,
    template: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Write the summary to this template; `turnmill templates list` shows all.",
            show_default=False,
        ),
    ] = "",
    as_json: JsonFlag = False,
    timeout: Timeout = 60.0,
) -> None:
    """Summarize all but the newest turns now, whatever the limits say, and wait for the result."""
    with connection.client(hints=True) as client, asking(timeout):
        done = client.summarize(session, template=template, timeout_s=timeout)
    assert done is not None  # noqa: S101 - it was waited for
    if as_json:
        print_json(done.model_dump(mode="json"))
    elif done.reason:
        print_line(f"{session} stays as it is: {done.reason}")
    else:
        print_line(
            f"compacted {session}: {count(done.turns_summarized, 'turn')} summarized, "
            f"{done.tokens_before:,} → {done.tokens_after:,} tokens, version {done.version}"
        )


def clear(
    session: SessionName, connection: Connection, yes: Yes = False, as_json: JsonFlag = False
) -> None:
    """Set the conversation aside and keep the system prompt. Checkpoints are deleted.

    The archive keeps the turns, marked as cleared. `turnmill forget` removes a session everywhere.
    """
    with connection.client() as client:
        found = client.info(session)
        turns = count(found.turns_in_log, "turn")
        summary = f" and the summary of {found.watermark:,} more" if found.watermark else ""
        confirm(f"Set {turns}{summary} of {session} aside and delete its checkpoints?", yes=yes)
        gone = client.clear(session)
    if as_json:
        print_json({"session": session, "turns": gone})
        return
    print_line(f"cleared {session}: {count(gone, 'turn')} set aside; the system prompt stays")
