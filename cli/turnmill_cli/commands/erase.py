"""``turnmill erase`` and ``forget``: words, or a whole session, are gone everywhere; provably."""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill.contract.erasure import Erased
from turnmill.contract.errors import NotAnswered, Transient, UnknownSession
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.plural import count, plural
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout, Yes
from turnmill_cli.output import (
    CommandFailed,
    clean,
    confirm,
    print_json,
    print_line,
)
from turnmill_cli.progress import asking
from turnmill_worker.ports.values import SessionRef

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient


# --- erase ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chosen:
    """By what turns are chosen; also the options that say so."""

    turn: Annotated[
        list[int] | None,
        typer.Option("--turn", min=1, metavar="N", help="This turn. May be given again."),
    ] = None
    matching: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Turns with this text in them; case does not matter."),
    ] = None
    subject: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Turns with this name, address or id in whole words."),
    ] = None
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Also turns that repeat five words in a row of them.")
    ] = False


def erase(
    session: SessionName,
    chosen: Chosen,
    connection: Connection,
    by: Annotated[
        str, typer.Option(metavar="WHO", help="Who erases, for the record; else your user's name.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Yes = False,
    as_json: JsonFlag = False,
    timeout: Timeout = 120.0,
) -> None:
    """Erase turns from Redis and the archive, and make anew what was made of them. This is final.

    The turns keep their places, without their words. Agents may go on meanwhile. A record says what
    was erased, when and by whom, without the words: `turnmill archive erasures` lists them.

    Exits with 1 if nothing is found, or if the archive's files could not be written anew.
    """
    with connection.client(hints=True) as client:
        ask = partial(_ask, client, session, chosen, by=by, timeout_s=timeout)
        done = ask(dry_run=True)
        if not dry_run and _is_any(done):
            confirm(f"Erase {_what(done)} of {session}? This is final.", yes=yes)
            done = ask(dry_run=False)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        _print(done)
    if not _is_any(done) or done.rewritten is False:
        raise typer.Exit(1)


def _ask(
    client: ContextClient, session: str, chosen: Chosen, *, by: str, dry_run: bool, timeout_s: float
) -> Erased:
    with asking(timeout_s):
        return client.erase(
            session,
            turns=chosen.turn or (),
            matching=chosen.matching,
            subject=chosen.subject,
            repeats=chosen.repeats,
            by=by or getpass.getuser(),
            dry_run=dry_run,
            timeout_s=timeout_s,
        )


def _is_any(done: Erased) -> bool:
    return bool(done.turns or done.earlier or done.checkpoints or done.memories or done.forks)


def _what(done: Erased) -> str:
    parts = [f"{count(len(done.turns), 'turn')} ({spans(done.turns)})"] if done.turns else []
    if done.earlier:
        parts.append(f"{count(done.earlier, 'turn')} of earlier incarnations or lost branches")
    for number, name in ((done.contexts, "context"), (done.checkpoints, "checkpoint")):
        if number:
            parts.append(count(number, name))
    if done.memories:
        parts.append(count(done.memories, "memory"))
    if done.images:
        parts.append(count(done.images, "image"))
    return ", ".join(parts)


def _print(done: Erased) -> None:
    if not _is_any(done):
        print_line(f"nothing of that is in {done.session}")
        return
    print_line(f"{'would erase' if done.dry_run else 'erased'} {_what(done)}")
    if done.forks:
        print_line(f"  also in its forks {', '.join(map(clean, done.forks))}", "dim")
    if done.remade:
        would = "would be" if done.dry_run else "is"
        print_line(f"  its context {would} made anew of the turns that remain", "dim")
    if done.repeated_in:
        turns = f"{plural(len(done.repeated_in), 'turn')} {spans(done.repeated_in)}"
        print_line(f"  {turns} repeat some of it: --repeats erases them, too", "yellow")
    if done.in_system_prompt:
        print_line("  the system prompt has some of it: change it with `turnmill open`", "yellow")
    if not done.dry_run:
        print_line("  Redis' files keep old bytes until it writes them anew: BGREWRITEAOF", "dim")
    if done.rewritten is False:
        print_line(
            "  the archive's files still hold old bytes: erase again when it is idle", "yellow"
        )


def spans(turns: Sequence[int]) -> str:
    """Numbers in order, in few words: ``3-5, 9``."""
    parts: list[list[int]] = []
    for turn in turns:
        if parts and parts[-1][-1] == turn - 1:
            parts[-1][1:] = [turn]
        else:
            parts.append([turn])
    return ", ".join("-".join(f"{end:,}" for end in part) for part in parts)


# --- the proof that a session is gone: the archive says so, or a worker does ----------------------

LOOK_EVERY_S = 0.1
PENDING = "a worker of the queue archive will remove it; until then, Redis keeps the order to do so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known about a session in the archive.

    Attributes:
        gone: it was looked for, and nothing of it is there.
        found: the same in words.
        left: rows by kind where the archive's database was looked at, else None.
    """

    gone: bool
    found: str
    left: dict[str, int] | None = None


def known_turns(client: ContextClient, session: str, timeout_s: float) -> str:
    """How many turns would be forgotten, in words.

    Raises:
        UnknownSession: neither Redis nor the archive has it.
        NotAnswered: Redis does not have it, and no worker said whether the archive does.
    """
    try:
        return count(client.info(session).last_seq, "turn")
    except UnknownSession:  # expired: the archive may have it all the same
        with asking(timeout_s):
            found = client.trajectory(session, timeout_s=timeout_s)
        return f"{count(len(found.turns), 'turn')} in the archive"


def prove(
    client: ContextClient, session: str, archive: ArchiveDatabase, *, timeout_s: float
) -> Proof:
    """Look until the archive has nothing of the session, for ``timeout_s`` at most.

    An archive that was named is believed to be the workers'. If it was only found here, or there is
    none, a worker is asked.
    """
    if not timeout_s:
        return Proof(gone=False, found=f"not looked at: {PENDING}")
    deadline = time.monotonic() + timeout_s
    is_here = _is_here(archive)
    is_named = is_here and bool(archive.archive_url or archive.data_dir)
    while True:
        proof = None if is_named else _asked(client, session, deadline)
        if proof is None or (proof.gone and is_here):
            proof = _looked_at(archive, client.namespace, session)
        if proof.gone or time.monotonic() > deadline:
            return proof
        time.sleep(LOOK_EVERY_S)


def _is_here(archive: ArchiveDatabase) -> bool:
    try:
        return bool(archive.url) and not archive.is_absent
    except CommandFailed:  # the workers' packages are not installed
        return False


def _looked_at(archive: ArchiveDatabase, namespace: str, session: str) -> Proof:
    ref = SessionRef(Namespace(namespace), SessionId(session))  # the client has checked both
    with archive.open() as opened:
        left = asdict(opened.left(ref))
    if any(left.values()):
        there = ", ".join(f"{number:,} {kind}" for kind, number in left.items() if number)
        return Proof(gone=False, found=f"{archive} still has {there}: {PENDING}", left=left)
    kinds = ", ".join(f"0 {kind}" for kind in left)
    return Proof(gone=True, found=f"{kinds} left in {archive}", left=left)


def _asked(client: ContextClient, session: str, deadline: float) -> Proof:
    within_s = max(deadline - time.monotonic(), LOOK_EVERY_S)
    try:
        found = client.trajectory(session, timeout_s=within_s)
    except UnknownSession:
        return Proof(gone=True, found="a worker looked and found nothing of it")
    except NotAnswered:
        return Proof(gone=False, found=f"no worker answered: {PENDING}")
    except Transient as error:
        return Proof(gone=False, found=f"{type(error).__name__}: {error}: {PENDING}")
    return Proof(gone=False, found=f"it still has {count(len(found.turns), 'turn')}: {PENDING}")


# --- forget ---------------------------------------------------------------------------------------


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
