"""``turnmill forget SESSION``: remove it everywhere, and prove it."""

from __future__ import annotations

import typer

from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.forget.proof import known_turns, prove
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout, Yes
from turnmill_cli.output import confirm, count, print_json, print_line
from turnmill_cli.progress import asking

__all__ = ["forget"]


def forget(
    session: SessionName,
    archive: ArchiveDatabase,
    connection: Connection,
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 15.0,
) -> None:
    """Remove a session from Redis and the archive, and prove that it is gone. This is final.

    Exits with 1 if after --timeout the archive still has the session, or nobody has confirmed that
    it is gone; the next worker that runs will remove it. --timeout 0 does not wait for the proof.
    """
    with connection.client(hints=True) as client:
        turns = known_turns(client, session, timeout)
        confirm(f"Forget {session} with its {turns}, in Redis and the archive?", yes=yes)
        done = client.forget(session)
        with asking(timeout):
            proof = prove(client, session, archive, timeout_s=timeout)
    if as_json:
        checked = {"gone": proof.gone, "found": proof.found, "left": proof.left}
        print_json({"session": session, "keys_left": done.keys_left, "archive": checked})
    else:
        print_line(f"forgot {session}")
        print_line(f"  Redis    {count(done.keys_left, 'key')} left", "dim")
        print_line(f"  archive  {proof.found}", "" if proof.gone else "yellow")
    if not proof.gone and timeout:
        raise typer.Exit(1)
