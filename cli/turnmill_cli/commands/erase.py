"""``turnmill erase SESSION``: take words out of a session, and of all that was made of them."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill.contract.erasure import Erased
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout, Yes
from turnmill_cli.output import confirm, count, print_json, print_line
from turnmill_cli.progress import asking

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient

__all__ = ["erase", "spans"]


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
    return bool(done.turns or done.earlier or done.checkpoints or done.memories)


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
    if done.remade:
        would = "would be" if done.dry_run else "is"
        print_line(f"  its context {would} made anew of the turns that remain", "dim")
    if done.repeated_in:
        turns = f"turn{'s' if len(done.repeated_in) > 1 else ''} {spans(done.repeated_in)}"
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
