"""``turnmill archive``: what the archive's database holds, and how long."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill_cli.archive_database import (
    ArchiveUrl,
    DataDir,
    archive_file,
    archive_url,
    open_archive,
    shown_url,
)
from turnmill_cli.options import JsonFlag, NamespaceName, Yes
from turnmill_cli.output import clean, confirm, count, print_json, print_line, stdout, when

if TYPE_CHECKING:
    from turnmill.contract.names import Namespace
    from turnmill_worker.archive import ArchivedSession, SqlArchive
    from turnmill_worker.ports.records import Removed

__all__ = ["register", "removed_line"]

MOST = 2**31 - 1
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MIB = 1024 * 1024

_group = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(_group, name="archive", help="Look into the archive, or prune it.")


@_group.command("info")
def archive_info(
    as_json: JsonFlag = False,
    url: ArchiveUrl = "",
    data_dir: DataDir = None,
    namespace: NamespaceName = "default",
) -> None:
    """Say where the archive is, which schema it has, and how much of the namespace it holds."""
    from turnmill_worker.archive.migrate import revisions  # noqa: PLC0415

    place = archive_url(url, data_dir)
    with open_archive(place) as archive:
        found = archive.sessions(_namespace(namespace), most=MOST)
    facts: dict[str, Any] = {
        "archive": shown_url(place),
        "schema": revisions()[-1],  # opening it has brought it there
        "bytes": _bytes(place),
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


def _bytes(place: str) -> int | None:
    """On disk, with what SQLite has not moved into the file yet; None for another database."""
    file = archive_file(place)
    if file is None:
        return None
    log = file.with_name(f"{file.name}-wal")
    return sum(each.stat().st_size for each in (file, log) if each.exists())


@_group.command("sessions")
def archive_sessions(
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 50,
    as_json: JsonFlag = False,
    url: ArchiveUrl = "",
    data_dir: DataDir = None,
    namespace: NamespaceName = "default",
) -> None:
    """List the namespace's sessions in the archive, those gone from Redis too, newest first."""
    with open_archive(archive_url(url, data_dir)) as archive:
        found = archive.sessions(_namespace(namespace), most=limit or MOST)
    if as_json:
        print_json([each._asdict() for each in found])
    elif not found:
        print_line(f"the archive has no sessions of {namespace}")
    else:
        _print_table(found)


def _print_table(found: list[ArchivedSession]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("session", overflow="fold")
    table.add_column("turns", justify="right", no_wrap=True)
    table.add_column("newest", no_wrap=True)
    for each in found:
        table.add_row(clean(each.session), f"{each.turns:,}", when(each.last_at_ms))
    stdout().print(table, markup=False)


@_group.command("prune")
def archive_prune(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="30d, 12h, 8w: whose newest turn there is older.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Yes = False,
    as_json: JsonFlag = False,
    url: ArchiveUrl = "",
    data_dir: DataDir = None,
    namespace: NamespaceName = "default",
) -> None:
    """Remove the namespace's old sessions from the archive, for good, and say what went.

    Sessions in Redis stay there; should one be that old, its turns in the archive go, too.
    """
    before_ms = int((time.time() - _age_s(older_than)) * 1000)
    name = _namespace(namespace)
    with open_archive(archive_url(url, data_dir)) as archive:
        old = [s for s in archive.sessions(name, most=MOST) if s.last_at_ms < before_ms]
        removed = None
        if old and not dry_run:
            confirm(f"Remove {_sessions(old)} of {namespace} from the archive?", yes=yes)
            removed = archive.prune(older_than_ms=before_ms, namespace=name)
        counts = removed or _there(archive, name, old)
    if as_json:
        print_json({"dry_run": dry_run, "sessions": len(old), **asdict(counts)})
        return
    verb = "would remove" if dry_run else "removed"
    print_line(f"{verb} {_sessions(old)} of {namespace}: {removed_line(counts)}")


def _sessions(old: list[ArchivedSession]) -> str:
    return count(len(old), "session")


def _there(archive: SqlArchive, namespace: Namespace, old: list[ArchivedSession]) -> Removed:
    from turnmill_worker.ports.records import Removed  # noqa: PLC0415
    from turnmill_worker.ports.values import SessionRef  # noqa: PLC0415

    found = [asdict(archive.left(SessionRef(namespace, each.session))) for each in old]
    total: dict[str, Any] = {name: sum(one[name] for one in found) for name in asdict(Removed())}
    return Removed(**total)


def removed_line(removed: Removed) -> str:
    """How many rows of each kind, in words."""
    return (
        f"{count(removed.turns, 'turn')}, {count(removed.compactions, 'compaction')}, "
        f"{count(removed.views, 'managed view')}, {count(removed.blobs, 'image')}, "
        f"{removed.memories:,} memor{'y' if removed.memories == 1 else 'ies'}"
    )


def _age_s(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no age: give a number and m, h, d or w, like 30d",
            param_hint="--older-than",
        )
    return int(found[1]) * _SECONDS[found[2]]


def _namespace(name: str) -> Namespace:
    from turnmill.contract.names import namespace  # noqa: PLC0415

    return namespace(name)
