"""``turnmill forget SESSION``: remove it everywhere, and prove it."""

from __future__ import annotations

from typing import Any

import typer

from turnmill_cli.archive_database import ArchiveUrl, DataDir
from turnmill_cli.forget.proof import Proof, known_turns, prove
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
    Timeout,
    Yes,
)
from turnmill_cli.output import confirm, count, print_json, print_line

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(forget)


def forget(
    session: SessionName,
    *,
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 15.0,
    url: ArchiveUrl = "",
    data_dir: DataDir = None,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Remove a session from Redis and the archive, and prove it; there is no way back.

    Exit code 1 when the archive still has it, or nobody said that it has not, after --timeout; it
    will be removed then as soon as a worker runs. --timeout 0 does not wait for the proof.
    """
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        turns = known_turns(client, session, timeout)
        confirm(f"Forget {session} with its {turns}, in Redis and the archive?", yes=yes)
        done = client.forget(session)
        proof = prove(client, session, url, data_dir, timeout_s=timeout)
    if as_json:
        print_json(_as_dict(session, done.keys_left, proof))
    else:
        print_line(f"forgot {session}")
        print_line(f"  Redis    {count(done.keys_left, 'key')} left", "dim")
        print_line(f"  archive  {proof.found}", "" if proof.gone else "yellow")
    if not proof.gone and timeout:
        raise typer.Exit(1)


def _as_dict(session: str, keys_left: int, proof: Proof) -> dict[str, Any]:
    return {
        "session": session,
        "keys_left": keys_left,
        "archive": {"gone": proof.gone, "found": proof.found, "left": proof.left},
    }
