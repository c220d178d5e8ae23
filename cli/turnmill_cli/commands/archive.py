"""``turnmill archive``: what the archive's database holds, and pruning it."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill.client.transcript import markdown
from turnmill.contract.names import Namespace, SessionId, session_id
from turnmill.contract.names import namespace as checked
from turnmill.contract.plural import count
from turnmill.contract.trajectory import LostTurns, Trajectory
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.commands.erase import spans
from turnmill_cli.options import GroupApp, JsonFlag, Limit, NamespaceName, SessionName, Yes
from turnmill_cli.output import (
    CommandFailed,
    confirm,
    print_json,
    print_line,
    print_rows,
    print_text,
    when,
)
from turnmill_worker.ports.values import Removed, SessionRef

if TYPE_CHECKING:
    from turnmill_worker.archive import ArchivedSession, SqlArchive

MOST = 2**31 - 1
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MIB = 1024 * 1024

archive_app = GroupApp(help="Look into the archive, or prune it.")


@archive_app.command("info")
def archive_info(
    archive: ArchiveDatabase, as_json: JsonFlag = False, namespace: NamespaceName = "default"
) -> None:
    """Show where the archive is, its schema, and how much of the namespace it holds."""
    name = checked(namespace)
    with archive.open() as opened:
        found = opened.sessions(name, most=MOST)
    from turnmill_worker.archive.database import revisions  # noqa: PLC0415 - needs the extra worker

    facts: dict[str, Any] = {
        "archive": str(archive),
        "schema": revisions()[-1],  # opening it has brought it there
        "bytes": archive.bytes_on_disk,
        "namespace": namespace,
        "sessions": len(found),
        "turns": sum(each.turns for each in found),
    }
    if as_json:
        print_json(facts)
        return
    size = "" if facts["bytes"] is None else f", {facts['bytes'] / _MIB:,.1f} MiB"
    print_line(f"{facts['archive']}: schema {facts['schema']}{size}")
    print_line(f"{_sessions(found)} of {namespace}, {count(facts['turns'], 'turn')}")


@archive_app.command("sessions")
def archive_sessions(
    archive: ArchiveDatabase,
    limit: Limit = 50,
    as_json: JsonFlag = False,
    namespace: NamespaceName = "default",
) -> None:
    """List the namespace's sessions in the archive, also those gone from Redis; newest first."""
    name = checked(namespace)
    with archive.open() as opened:
        found = opened.sessions(name, most=limit or MOST)
    print_rows(
        found,
        {
            "session": lambda each: each.session,
            "turns": lambda each: each.turns,
            "newest": lambda each: when(each.last_at_ms),
        },
        none=f"the archive has no sessions of {namespace}",
        as_json=(lambda each: each._asdict()) if as_json else None,
    )


@archive_app.command("lost")
def archive_lost(
    archive: ArchiveDatabase,
    session: SessionName,
    branch: Annotated[
        int, typer.Option(metavar="N", min=0, help="Print this branch.", show_default=False)
    ] = 0,
    as_json: JsonFlag = False,
    namespace: NamespaceName = "default",
) -> None:
    """List what Redis lost of a session when it went back, or print one branch as markdown."""
    ref = SessionRef(checked(namespace), SessionId(session))
    with archive.open() as opened:
        found = {each.branch: each for each in opened.branches(ref)}
        if branch and branch not in found:
            raise CommandFailed(f"{session} has no branch {branch}; it has {len(found)}")
        if branch:
            told = _trajectory(opened, ref, found[branch].epoch)
            print_text(told.model_dump_json() if as_json else markdown(told))
            return
    if as_json:
        print_json([each.numbers for each in found.values()])
        return
    for each in found.values():
        print_line(str(LostTurns.model_validate(each.numbers)))
    if not found:
        print_line(f"Redis has lost nothing of {session} that the archive has")


def _trajectory(opened: SqlArchive, ref: SessionRef, epoch: str) -> Trajectory:
    from turnmill_worker.requests.export import committed, with_images  # noqa: PLC0415 - as above

    return Trajectory(
        session=ref.session,
        namespace=ref.namespace,
        turns=with_images(opened.turns(ref, epoch=epoch), partial(opened.blobs, ref.namespace)),
        compactions=tuple(map(committed, opened.compactions(ref, epoch=epoch))),
    )


@archive_app.command("prune")
def archive_prune(
    archive: ArchiveDatabase,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="30d, 12h or 8w: sessions without a turn archived since then.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Yes = False,
    as_json: JsonFlag = False,
    namespace: NamespaceName = "default",
) -> None:
    """Remove the namespace's old sessions from the archive for good, and say what was removed.

    Sessions stay in Redis. If one of them is that old, its turns in the archive are removed too.
    """
    before_ms = int((time.time() - _age_s(older_than)) * 1000)
    name = checked(namespace)
    with archive.open() as opened:
        old = [s for s in opened.sessions(name, most=MOST) if s.last_at_ms < before_ms]
        removed = None
        if old and not dry_run:
            confirm(f"Remove {_sessions(old)} of {namespace} from the archive?", yes=yes)
            removed = opened.prune(older_than_ms=before_ms, namespace=name)
        counts = removed or _there(opened, name, old)
    if as_json:
        print_json({"dry_run": dry_run, "sessions": len(old), **asdict(counts)})
        return
    verb = "would remove" if dry_run else "removed"
    print_line(f"{verb} {_sessions(old)} of {namespace}: {_rows(counts)}")


@archive_app.command("erasures")
def archive_erasures(
    archive: ArchiveDatabase,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Only of this session.")
    ] = None,
    as_json: JsonFlag = False,
    namespace: NamespaceName = "default",
) -> None:
    """List what was erased, when and by whom, oldest first; never what was said."""
    name, one = checked(namespace), session_id(session) if session else None
    with archive.open() as opened:
        found = opened.erasures(name, one)
    print_rows(
        found,
        {
            "when": lambda each: when(each.at_ms),
            "by": lambda each: each.by,
            "session": lambda each: each.session,
            "chosen by": lambda each: each.how,
            "turns": lambda each: spans(each.turns),
        },
        none="nothing was erased",
        as_json=asdict if as_json else None,
    )


def _sessions(found: list[ArchivedSession]) -> str:
    return count(len(found), "session")


def _there(opened: SqlArchive, namespace: Namespace, old: list[ArchivedSession]) -> Removed:
    found = [asdict(opened.left(SessionRef(namespace, each.session))) for each in old]
    total: dict[str, Any] = {name: sum(one[name] for one in found) for name in asdict(Removed())}
    return Removed(**total)


def _rows(removed: Removed) -> str:
    return (
        f"{count(removed.turns, 'turn')}, {count(removed.compactions, 'compaction')}, "
        f"{count(removed.views, 'managed view')}, {count(removed.blobs, 'image')}, "
        f"{count(removed.memories, 'memory')}"
    )


def _age_s(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not an age: give a number and m, h, d or w, such as 30d",
            param_hint="--older-than",
        )
    return int(found[1]) * _SECONDS[found[2]]
