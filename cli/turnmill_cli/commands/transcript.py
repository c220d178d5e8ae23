"""``turnmill transcript`` and ``turnmill export``: a whole session, for people and for programs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill.contract.errors import UnknownSession
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
    Timeout,
)
from turnmill_cli.output import CommandFailed, count, print_note, print_text

if TYPE_CHECKING:
    from turnmill.contract.trajectory import Trajectory

__all__ = ["register", "whole"]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to; stdout when not given."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(transcript)
    app.command()(export)


def transcript(
    session: SessionName,
    output: Output = None,
    timeout: Timeout = 30.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Print a session from its first turn on as markdown, complete whatever was compacted."""
    from turnmill.markdown_transcript import markdown  # noqa: PLC0415

    found = whole(Target(redis_url, broker_url, namespace), session, timeout)
    _give(markdown(found), found, output)


def export(
    session: SessionName,
    output: Output = None,
    timeout: Timeout = 30.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Print the same as JSON: `turnmill visualize` and `Trajectory` read it back."""
    found = whole(Target(redis_url, broker_url, namespace), session, timeout)
    _give(found.model_dump_json(), found, output)


def whole(target: Target, session: str, timeout_s: float) -> Trajectory:
    """The session's trajectory, with the context its agent reads now where it still is one.

    Raises:
        UnknownSession: neither in Redis nor in the archive.
        NotAnswered: no worker was done in time.
    """
    with target.client(hints=True) as client:
        found = client.trajectory(session, timeout_s=timeout_s)
        if not found.context:
            with suppress(UnknownSession):  # expired: only the archive has it
                messages = client.read(session).messages
                found = found.model_copy(update={"context": tuple(messages)})
    return found


def _give(text: str, found: Trajectory, output: Path | None) -> None:
    if output is None:
        print_text(text)
        return
    try:
        output.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise CommandFailed(f"{output}: {error.strerror}") from None
    print_note(f"wrote {count(len(found.turns), 'turn')} to {output}")
