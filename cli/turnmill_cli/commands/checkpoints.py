"""``turnmill checkpoint``, ``checkpoints``, ``rollback``: remember a state, and go back to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnmill.contract.errors import NoCheckpoint
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
from turnmill_cli.output import (
    CommandFailed,
    clean,
    confirm,
    count,
    print_json,
    print_line,
    stdout,
    when,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnmill._sync.client import ContextClient
    from turnmill.contract.results import Checkpoint

__all__ = ["register"]

To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="ID|VERSION",
        help="A checkpoint, or a version in `turnmill history`; else the newest checkpoint.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(checkpoint)
    app.command()(checkpoints)
    app.command()(rollback)


def checkpoint(
    session: SessionName,
    message: Annotated[
        str, typer.Argument(metavar="[MESSAGE]", help="What to say about it.", show_default=False)
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="ID", help="What to call it; used again, it moves.")
    ] = "",
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Remember the context as it is now, and print the checkpoint's id."""
    with Target(redis_url, broker_url, namespace).client() as client:
        made = client.checkpoint(session, message, name=name)
    if made is None:
        raise CommandFailed(
            f"the policy of {session!r} keeps no checkpoints: "
            f"`turnmill open {session} --set keep_checkpoints=10`"
        )
    print_line(made)


def checkpoints(
    session: SessionName,
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """List what a rollback can restore, oldest first."""
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.checkpoints(session)
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
    elif not found:
        print_line("no checkpoints")
    else:
        _print_table(found)


def _print_table(found: Sequence[Checkpoint]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("id", overflow="fold")
    table.add_column("when", no_wrap=True)
    table.add_column("turn", justify="right", no_wrap=True)
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("message", overflow="fold")
    for each in found:
        about = "(automatic)" if each.automatic else each.message
        table.add_row(
            *(clean(each.id), when(each.at_ms), f"{each.seq:,}", str(each.version), clean(about)),
            style="dim" if each.automatic else None,
        )
    stdout().print(table, markup=False)


def rollback(
    session: SessionName,
    to: To = "",
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Go back to a checkpoint or a version; the archive keeps the turns after it, marked.

    Says what will leave the session and asks, unless --yes is given.
    """
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        chosen = _choose(client, session, to)
        if not yes:
            lost = count(_lost(client, session, chosen, timeout), "turn")
            confirm(f"Go back to {chosen} of {session}? {lost} will leave the session.", yes=yes)
        done = client.rollback(session, chosen.to, timeout_s=timeout)
    if as_json:
        print_json(done.model_dump(mode="json"))
        return
    print_line(
        f"{session} is back at {done.restored}: {count(done.turns_lost, 'turn')} set aside, "
        f"its newest turn is {done.seq:,}, version {done.version}"
    )


class _State(NamedTuple):
    """What to go back to: for ``client.rollback``, and for a person; its turn if that is known."""

    to: str | int | None
    words: str
    seq: int | None = None

    def __str__(self) -> str:
        return self.words if self.seq is None else f"{self.words} (turn {self.seq:,})"


def _choose(client: ContextClient, session: str, to: str) -> _State:
    """The checkpoint or version that was named, or the newest checkpoint.

    Raises:
        NoCheckpoint: there is nothing to go back to.
    """
    known = client.checkpoints(session)
    found = [each for each in known if to in ("", each.id)]
    if found:
        # Not by its id when none was given: the newest is used up then.
        return _State(to or None, found[-1].id, found[-1].seq)
    if to.isdecimal():
        return _State(int(to), f"version {to}")
    if to:
        ids = ", ".join(each.id for each in known) or "none"
        raise NoCheckpoint(f"no checkpoint {to!r} of {session!r}; checkpoints are: {ids}")
    raise NoCheckpoint(f"{session!r} has no checkpoint; `turnmill history` lists its versions")


def _lost(client: ContextClient, session: str, chosen: _State, timeout_s: float) -> int:
    """How many turns a rollback would take out of the session.

    Raises:
        NoCheckpoint: it has no such version.
    """
    found = client.trajectory(session, timeout_s=timeout_s)
    seq = chosen.seq
    if seq is None:
        records = [each.record for each in found.compactions]
        ends = [max(r.last_seq, r.watermark) for r in records if r.version == chosen.to]
        if not ends:
            versions = ", ".join(str(record.version) for record in records) or "none"
            raise NoCheckpoint(f"no {chosen.words} of {session!r}; versions are: {versions}")
        [seq] = ends
    return sum(turn.state == "kept" and turn.seq > seq for turn in found.turns)
