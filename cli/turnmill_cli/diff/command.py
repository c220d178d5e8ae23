"""``turnmill diff SESSION [V1] [V2]``: what changed between two committed contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer

from turnmill.contract.context import EMPTY, StoredContext
from turnmill.contract.names import Version
from turnmill.contract.trajectory import CommittedContext
from turnmill_cli.diff.changes import Changes, Part, changes
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import CommandFailed, print_json, print_line, when
from turnmill_cli.progress import asking

__all__ = ["diff"]

_STYLES = {"+": "green", "-": "red", "@": "cyan"}

OldVersion = Annotated[
    int | None,
    typer.Argument(metavar="V1", min=0, help="A version. 0 is the start.", show_default=False),
]
NewVersion = Annotated[
    int | None,
    typer.Argument(metavar="V2", min=0, help="Another version.", show_default=False),
]


def diff(
    session: SessionName,
    connection: Connection,
    old: OldVersion = None,
    new: NewVersion = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """Show what changed between two contexts: summary, facts, rules, requests, receipts and more.

    Without V2 it is the newest, and without V1 the one before V2. `turnmill history` lists them.
    """
    with connection.client(hints=True) as client, asking(timeout):
        found = client.trajectory(session, timeout_s=timeout).compactions
    commits = {each.context.version: each for each in found}
    newest = max(commits, default=0) if new is None else new
    before = max((each for each in commits if each < newest), default=0) if old is None else old
    sides = [_side(session, commits, version) for version in (before, newest)]
    changed = changes(*(side.context if side else EMPTY for side in sides))
    if as_json:
        print_json(_as_dict(sides, changed))
    elif not found:
        print_line(f"{session} was never compacted")
    else:
        _print(session, sides, changed)


def _side(
    session: str, commits: Mapping[Version, CommittedContext], version: int
) -> CommittedContext | None:
    """The commit of this version; None for version 0, before the first.

    Raises:
        CommandFailed: there is none; says which there are.
    """
    if version and Version(version) not in commits:
        known = _ranges([0, *sorted(commits)])
        raise CommandFailed(f"no version {version} of {session!r}; there are {known}")
    return commits.get(Version(version))


def _ranges(versions: Sequence[int]) -> str:
    """``0-3, 5``."""
    runs = groupby(enumerate(versions), key=lambda pair: pair[1] - pair[0])
    ends = [[version for _, version in run] for _, run in runs]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)


def _context(side: CommittedContext | None) -> StoredContext:
    return side.context if side else EMPTY


def _as_dict(sides: Sequence[CommittedContext | None], changed: Changes) -> dict[str, Any]:
    def values(part: Part) -> dict[str, list[Any]]:
        return {
            name: [value.model_dump(mode="json") for value, _ in found]
            for name, found in part._asdict().items()
        }

    versions = [
        {
            "version": _context(side).version,
            "watermark": _context(side).watermark,
            "at_ms": side.at_ms if side else None,
            "strategy": _context(side).strategy,
            "tokens": side.record.tokens_after if side else None,
        }
        for side in sides
    ]
    return {
        "versions": versions,
        "summary": list(changed.summary),
        "ledger": list(changed.ledger),
        **{name: values(part) for name, part in changed.parts.items()},
    }


def _print(session: str, sides: Sequence[CommittedContext | None], changed: Changes) -> None:
    print_line(session, "bold")
    for side in sides:
        print_line(f"  {_headline(side)}")
    if not changed:
        print_line("no difference but the turns covered", "dim")
    for title, lines in (("summary", changed.summary), ("ledger", changed.ledger)):
        if lines:
            print_line(f"\n{title}", "bold")
        for line in lines:
            print_line(line, _STYLES.get(line[:1], ""))
    for name, part in changed.parts.items():
        if any(part):
            print_line(f"\n{name}", "bold")
        for sign, found in (("-", part.removed), ("+", part.added)):
            for _, line in found:
                print_line(f"{sign} {line}", _STYLES[sign])


def _headline(side: CommittedContext | None) -> str:
    if side is None:
        return "version 0: nothing compacted yet"
    context = side.context
    return (
        f"version {context.version}: {context.strategy}, {when(side.at_ms)}, turns to "
        f"{context.watermark:,} covered, {side.record.tokens_after:,} tokens"
    )
