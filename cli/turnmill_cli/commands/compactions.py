"""Compactions by hand, and going back: ``turnmill compact``, ``rollback``, ``retry`` and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from turnmill.contract.errors import NoCheckpoint, UnknownSession
from turnmill.contract.plural import count
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout, Yes
from turnmill_cli.output import (
    CommandFailed,
    confirm,
    dumped,
    print_json,
    print_line,
    print_note,
    print_rows,
    when,
)
from turnmill_cli.progress import asking

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient


# --- compact and clear ----------------------------------------------------------------------------


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


# --- checkpoints and rollback ---------------------------------------------------------------------

To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="ID|VERSION",
        help="A checkpoint, or a version from `turnmill history`; else the newest checkpoint.",
        show_default=False,
    ),
]


def checkpoint(
    session: SessionName,
    connection: Connection,
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="A note for people.", show_default=False)
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="ID", help="Its name. A name used again moves to the new state.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Remember the context as it is now, and print the checkpoint's id."""
    with connection.client() as client:
        made = client.checkpoint(session, message, name=name)
    if made is None:
        raise CommandFailed(
            f"the policy of {session!r} keeps no checkpoints: "
            f"`turnmill open {session} --set keep_checkpoints=10`"
        )
    if as_json:
        print_json({"session": session, "id": made})
    else:
        print_line(made)


def checkpoints(
    session: SessionName,
    connection: Connection,
    as_json: JsonFlag = False,
) -> None:
    """List the checkpoints a rollback can restore, oldest first."""
    with connection.client() as client:
        found = client.checkpoints(session)
    print_rows(
        found,
        {
            "id": lambda each: each.id,
            "when": lambda each: when(each.at_ms),
            "turn": lambda each: each.seq,
            "version": lambda each: each.version,
            "message": lambda each: "(automatic)" if each.automatic else each.message,
        },
        none="no checkpoints",
        as_json=dumped if as_json else None,
        style=lambda each: "dim" if each.automatic else None,
    )


def rollback(
    session: SessionName,
    connection: Connection,
    to: To = "",
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
) -> None:
    """Go back to a checkpoint or a version. The archive keeps the later turns, marked.

    Says how many turns will leave the session, and asks for confirmation unless --yes is given.
    """
    with connection.client(hints=True) as client:
        chosen = _choose(client, session, to)
        if not yes:
            lost = count(_lost(client, session, chosen, timeout), "turn")
            confirm(f"Go back to {chosen} of {session}? {lost} will leave the session.", yes=yes)
        with asking(timeout):
            done = client.rollback(session, chosen.to, timeout_s=timeout)
    if as_json:
        print_json(done.model_dump(mode="json"))
        return
    print_line(
        f"{session} is back at {done.restored}: {count(done.turns_lost, 'turn')} set aside, "
        f"its newest turn is {done.seq:,}, version {done.version}"
    )


def fork(
    session: SessionName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the fork.")],
    connection: Connection,
    at: Annotated[
        str,
        typer.Option(
            metavar="SEQ|ID|vN",
            help="Its newest turn, by seq or turn id; or a checkpoint, or v3 for version 3.",
            show_default="now",
        ),
    ] = "",
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
) -> None:
    """Begin a session as another one was after a turn; both go on independently."""
    with connection.client(hints=True) as client, asking(timeout):
        done = client.fork(session, new, at=_turn(at) if at else None, timeout_s=timeout)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        print_line(f"{done.session} begins as {session} was after turn {done.seq:,}")


def rewind(
    session: SessionName,
    connection: Connection,
    at: Annotated[
        str, typer.Option(metavar="SEQ|ID", help="The first turn to leave, by seq or turn id.")
    ],
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
) -> None:
    """Go back to before a turn, to push it anew. The archive keeps it and later ones, marked."""
    with connection.client(hints=True) as client:
        confirm(f"Set turn {at} of {session} and all later ones aside?", yes=yes)
        with asking(timeout):
            done = client.rewind(session, at=_turn(at), timeout_s=timeout)
    if as_json:
        print_json(done.model_dump(mode="json"))
        return
    print_line(
        f"{session} is back at {done.restored}: {count(done.turns_lost, 'turn')} set aside, "
        f"version {done.version}"
    )


def _turn(at: str) -> str | int:
    return int(at) if at.isascii() and at.isdecimal() else at


class _Destination(NamedTuple):
    """What to go back to: for ``client.rollback`` and for a person, and its turn if it is known."""

    to: str | int | None
    words: str
    seq: int | None = None

    def __str__(self) -> str:
        return self.words if self.seq is None else f"{self.words} (turn {self.seq:,})"


def _choose(client: ContextClient, session: str, to: str) -> _Destination:
    """The checkpoint or version that was named, or the newest checkpoint.

    Raises:
        NoCheckpoint: there is nothing to go back to.
    """
    known = client.checkpoints(session)
    found = [each for each in known if to in ("", each.id)]
    if found:
        # Not by its id when none was given: the newest is used up then.
        return _Destination(to or None, found[-1].id, found[-1].seq)
    if to.isdecimal():
        return _Destination(int(to), f"version {to}")
    if to:
        ids = ", ".join(each.id for each in known) or "none"
        raise NoCheckpoint(f"no checkpoint {to!r} of {session!r}; its checkpoints are: {ids}")
    raise NoCheckpoint(f"{session!r} has no checkpoint; `turnmill history` lists its versions")


def _lost(client: ContextClient, session: str, chosen: _Destination, timeout_s: float) -> int:
    """How many turns a rollback would take out of the session.

    Raises:
        NoCheckpoint: it has no such version.
    """
    with asking(timeout_s):
        found = client.trajectory(session, timeout_s=timeout_s)
    seq = chosen.seq
    if seq is None:
        records = [each.record for each in found.compactions]
        ends = [max(r.last_seq, r.watermark) for r in records if r.version == chosen.to]
        if not ends:
            versions = ", ".join(str(record.version) for record in records) or "none"
            raise NoCheckpoint(f"no {chosen.words} of {session!r}; its versions are: {versions}")
        [seq] = ends
    return sum(turn.state == "kept" and turn.seq > seq for turn in found.turns)


# --- sessions whose compactions keep failing ------------------------------------------------------


def parked(connection: Connection, as_json: JsonFlag = False) -> None:
    """List the sessions whose compactions keep failing: since when, how often, and why."""
    with connection.client() as client:
        found = client.parked()
    print_rows(
        found,
        {
            "session": lambda each: each.session,
            "parked since": lambda each: when(each.since_ms),
            "failures": lambda each: each.failures,
            "error": lambda each: each.error,
            "tokens": lambda each: each.tokens,
        },
        none=f"no session of {connection.namespace} is parked",
        as_json=dumped if as_json else None,
        noun="session",
    )


def retry(
    connection: Connection,
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="SESSION…", help="The names of the sessions.", show_default=False),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Retry every parked session.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Have parked sessions compacted again, when the cause of their failures is fixed."""
    if bool(sessions) == everyone:
        raise typer.BadParameter("give the names of sessions, or --all", param_hint="SESSION…")
    with connection.client(hints=True) as client:
        names = [each.session for each in client.parked()] if everyone else sessions or []
        tried: list[str] = []
        unknown = []
        for name in names:
            try:
                if client.retry(name):
                    tried.append(name)
                elif not everyone:
                    print_note(f"{name} is not parked")
            except UnknownSession as error:
                # A wrong name in a list must not keep the others from being retried.
                unknown.append(error)
    if as_json:
        print_json({"retried": tried})
    else:
        print_line(f"{count(len(tried), 'session')} will be compacted again")
    if unknown and not everyone:
        raise unknown[0]
