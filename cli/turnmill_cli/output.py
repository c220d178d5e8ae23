"""What commands print, and with which code they end: results on stdout, all else on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Column, Table

from turnmill.contract.errors import (
    InvalidInput,
    InvalidTemplate,
    InvalidTurn,
    StoreRefused,
    StoreUnavailable,
    TurnmillError,
    UnknownEncoding,
    UnknownSession,
    UnknownTemplate,
)
from turnmill.contract.job_outcomes import ASKED_AGAIN
from turnmill.contract.plural import count

NO_REDIS = "start it (`turnmill up`), or correct --redis-url / TURNMILL_REDIS_URL"
"""What to do when Redis cannot be reached."""

REDIS_REFUSES = "correct --redis-url / TURNMILL_REDIS_URL, or give --redis-password-file"
"""What to do when Redis refuses the client."""

ADVICE: Mapping[type[TurnmillError], str] = {
    StoreUnavailable: NO_REDIS,
    StoreRefused: REDIS_REFUSES,
    UnknownSession: "`turnmill sessions -A` lists all sessions; --namespace names theirs",
}
"""By the error's type."""


# C0 and C1 controls but tab and newline: an escape sequence in a message must not drive a terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandFailed(TurnmillError):
    """A command cannot do its work; the message says what to do."""

    exit_code = 1


def install(extra: str) -> str:
    """The command that brings what is missing: turnmill is installed from its own folder."""
    return f"pip install '.[{extra}]' in turnmill's folder"


@cache
def stdout() -> Console:
    """The console results go to."""
    return Console(highlight=False, soft_wrap=False)


@cache
def stderr() -> Console:
    """The console everything else goes to."""
    return Console(stderr=True, highlight=False)


def print_error(error: TurnmillError, *, where: str = "") -> None:
    """Print an error in red: where, its type, its message; then what to do, where that is known."""
    kind = "" if isinstance(error, CommandFailed) else f"{type(error).__name__}: "
    _print(stderr(), f"{where}{kind}{error}", "red")
    if advice := ADVICE.get(type(error)):
        print_note(f"→ {advice}")


def print_note(text: str) -> None:
    """Print one line on stderr."""
    _print(stderr(), text, "dim")


def print_json(value: Any) -> None:
    """Print a value as JSON: indented for a person, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a lone surrogate, or a terminal without UTF-8
        text = json.dumps(value, indent=indent)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_line(text: str, style: str = "") -> None:
    """Print one line of a result."""
    _print(stdout(), text, style)


def _print(console: Console, text: str, style: str) -> None:
    # For a person, lines end between words; for a program, a line is a line.
    soft_wrap = not console.is_terminal
    console.print(clean(text), style=style or None, markup=False, soft_wrap=soft_wrap)


Row = TypeVar("Row")


def print_rows(
    rows: Sequence[Row],
    columns: Mapping[str, Callable[[Row], str | int | None]],
    *,
    none: str,
    as_json: Callable[[Row], Any] | None = None,
    noun: str = "",
    style: Callable[[Row], str | None] = lambda _: None,
) -> None:
    """Print values as a table: texts fold, numbers and times stay on one line.

    Args:
        rows: the values.
        columns: by title, what stands there of each value.
        none: the line where there are no values.
        as_json: makes JSON of each instead, for ``--json``.
        noun: counts them below the table.
        style: of a row, if it is no usual one.
    """
    if as_json or not rows:
        print_json([as_json(row) for row in rows]) if as_json else print_line(none)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, cell in columns.items():
        is_number = all(isinstance(cell(row), int | None) for row in rows)
        one_line = is_number or name in _ONE_LINE
        justify: Any = "right" if is_number or name in _RIGHT else "left"
        table.add_column(name, justify=justify, no_wrap=one_line, overflow="fold")
    for row in rows:
        cells = (cell(row) for cell in columns.values())
        shown = (f"{each:,}" if isinstance(each, int) else clean(each or "–") for each in cells)
        table.add_row(*shown, style=style(row))
    print_table(table)
    if noun:
        stdout().print(count(len(rows), noun), style="dim")


_RIGHT = ("tokens / limit", "last push", "soft", "target", "cost")
_ONE_LINE = (*_RIGHT, "when", "day", "newest", "parked since", "error", "sha256")


def dumped(value: BaseModel) -> Any:
    """A value as JSON has it."""
    return value.model_dump(mode="json")


def field_table() -> Table:
    """An empty table for names and their values."""
    return Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))


def print_table(table: Table) -> None:
    """Print a table whose cells are no markup."""
    stdout().print(table, markup=False)


def print_text(text: str) -> None:
    """Print a text to its last character; on a terminal without what could drive it."""
    shown = clean(text) if sys.stdout.isatty() else text
    encoding = sys.stdout.encoding or "utf-8"
    # Not through rich or click: both would change the text a pipe is given.
    sys.stdout.write(shown.encode(encoding, "replace").decode(encoding))
    sys.stdout.write("" if shown.endswith("\n") else "\n")
    sys.stdout.flush()


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """For imports that need an extra.

    Raises:
        CommandFailed: a package is not installed; says what to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandFailed(f"this needs more packages ({error.name}): {install(extra)}") from None


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if a person agrees, or has agreed with ``--yes``.

    Raises:
        CommandFailed: nobody is there to answer.
        typer.Abort: the answer was no.
    """
    if yes:
        return
    try:
        # Not on stdout: it may be read by a program.
        agreed = typer.confirm(clean(question), err=True)
    except typer.Abort:  # Ctrl-C, or nothing left to read
        if sys.stdin.isatty():
            raise
        _end_of_prompt()
        raise CommandFailed("nothing was done: add --yes where nobody can answer") from None
    _end_of_prompt()
    if not agreed:
        raise typer.Abort


def _end_of_prompt() -> None:
    # A person's Enter ended the line of the question; an answer from a pipe did not.
    if not sys.stdin.isatty():
        sys.stderr.write("\n")


def clean(text: str) -> str:
    """The text with what could drive or break a terminal replaced."""
    return _CONTROLS.sub("�", text).encode("utf-8", "replace").decode()


def items_line(items: Mapping[str, int]) -> str:
    """``2 items kept, 3 not: 2 unsupported, 1 loop; asked again: 1 unfinished``, or what is of it.

    ``""`` where a model made none, and was asked once.
    """
    dropped, again = {**items}, {}
    kept = dropped.pop("kept", 0)
    for why in [each for each in items if each.startswith(ASKED_AGAIN)]:
        again[why.removeprefix(ASKED_AGAIN)] = dropped.pop(why)
    parts = [f"{count(kept, 'item')} kept"] if kept or dropped else []
    if dropped:
        parts[0] += f", {sum(dropped.values()):,} not: {_reasons(dropped)}"
    return "; ".join([*parts, *([f"{ASKED_AGAIN}{_reasons(again)}"] if again else [])])


def _reasons(found: Mapping[str, int]) -> str:
    return ", ".join(f"{many:,} {why}" for why, many in found.items())


def when(at_ms: int) -> str:
    """A moment for a person, in this machine's time."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return at.strftime("%Y-%m-%d %H:%M:%S")


def safe_url(url: str) -> str:
    """The URL without user, password and query."""
    # Greedy: in a list of Sentinels some hosts are lost too, but never a password shown.
    return re.sub(r"://.*@", "://***@", url.partition("?")[0])


# --- exit codes -----------------------------------------------------------------------------------


class WrongUsage(CommandFailed):
    """What was given on the command line cannot be used, whatever the state of things is."""

    exit_code = 2


_FOUND_OUT = (InvalidTurn, InvalidTemplate, UnknownTemplate, UnknownEncoding)
"""Invalid input that is no word of the command line: what a file holds, what there is not."""


def exit_code(error: TurnmillError) -> int:
    """2 where the words given cannot be right, such as a name that none can be; 1 for all else."""
    if isinstance(error, InvalidInput) and not isinstance(error, _FOUND_OUT):
        return WrongUsage.exit_code
    return error.exit_code if isinstance(error, CommandFailed) else CommandFailed.exit_code
