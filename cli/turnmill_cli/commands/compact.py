"""``turnmill compact`` and ``turnmill clear``: make a context small now."""

from __future__ import annotations

from typing import Annotated

import typer

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
    """Add the commands."""
    app.command()(compact)
    app.command()(clear)


def compact(
    session: SessionName,
    template: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Write it to a template: `turnmill templates list`.",
            show_default=False,
        ),
    ] = "",
    as_json: JsonFlag = False,
    timeout: Timeout = 60.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Summarize all but the newest turns now, whatever the limits say; waits until it is done."""
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
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
    session: SessionName,
    yes: Yes = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Set the conversation aside and keep the system prompt; the archive keeps the turns, marked.

    Its checkpoints are gone afterwards. `turnmill forget` removes it everywhere.
    """
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.info(session)
        turns = count(found.turns_in_log, "turn")
        summary = f" and the summary of {found.watermark:,} more" if found.watermark else ""
        confirm(f"Set {turns}{summary} of {session} aside, and drop its checkpoints?", yes=yes)
        gone = client.clear(session)
    print_line(f"cleared {session}: {count(gone, 'turn')} set aside; the system prompt stays")
