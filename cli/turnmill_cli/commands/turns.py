"""Turns in and out: ``turnmill push``, ``read``, ``transcript`` and ``export``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from turnmill.client.commands import Commands
from turnmill.client.transcript import markdown
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn, TurnmillError, UnknownSession
from turnmill.contract.names import session_id
from turnmill.contract.plural import count
from turnmill.contract.trajectory import Trajectory
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike
from turnmill.push.too_large import OnTooLarge
from turnmill.read.context import Context
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import (
    CommandFailed,
    clean,
    print_error,
    print_json,
    print_note,
    print_text,
    stdout,
)
from turnmill_cli.progress import asking

# --- push -----------------------------------------------------------------------------------------


_OnTooLarge = Annotated[
    OnTooLarge, typer.Option(help="Refuse turns over the size limit, or cut their texts.")
]


def push(
    session: SessionName,
    connection: Connection,
    on_too_large: _OnTooLarge = "raise",
    as_json: JsonFlag = False,
) -> None:
    """Push turns from stdin, one JSON value per line: a turn, a message, or a list of messages.

    Prints the seq of each turn. All lines are checked first: a malformed one is named, and nothing
    is pushed. An error of Redis ends the command: earlier lines are pushed, later ones are not.
    """
    session_id(session)
    if sys.stdin.isatty():
        print_note("Reading turns from the terminal, one JSON value per line. Ctrl-D ends.")
    pushed = duplicates = number = 0
    lines = [(at, line) for at, line in enumerate(sys.stdin.buffer, 1) if line.strip()]
    turns: list[tuple[int, TurnLike]] = []
    try:
        with connection.client(hints=True) as client:
            commands = Commands.of(client.namespace, DEFAULT_MAX_TURN_BYTES)
            for number, line in lines:
                turns.append((number, _turn(line.strip())))
                commands.push(session, turns[-1][1], on_too_large=on_too_large, new_id=str)
            for number, turn in turns:  # noqa: B007 - an error names it
                done = client.push(session, turn, on_too_large=on_too_large)
                pushed += not done.duplicate
                duplicates += done.duplicate
                _report(done.seq, done.turn_id, done.duplicate, as_json=as_json)
    except TurnmillError as error:
        print_error(error, where=f"line {number}: " if number else "")
        raise typer.Exit(1) from None
    finally:
        again = f", {count(duplicates, 'duplicate')}" if duplicates else ""
        print_note(f"pushed {count(pushed, 'turn')} to {session}{again}")


def _turn(line: bytes) -> TurnLike:
    try:
        value: TurnLike = json.loads(line)
    except RecursionError:
        raise InvalidTurn("nested too deeply") from None
    except ValueError as error:
        # Not the parser's own words: it may quote the line.
        at = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidTurn(f"{len(line)} bytes that are not JSON{at}") from None
    return value


def _report(seq: int, turn_id: str, duplicate: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"seq": seq, "turn_id": turn_id, "duplicate": duplicate})
    else:
        sys.stdout.write(f"{seq}\n")
        sys.stdout.flush()


# --- read -----------------------------------------------------------------------------------------

_STYLES = {"system": "magenta", "developer": "magenta", "user": "green", "assistant": "cyan"}


def read(session: SessionName, connection: Connection, as_json: JsonFlag = False) -> None:
    """Print the context as an agent reads it now. --json prints the bare list of messages."""
    with connection.client() as client:
        context = client.read(session)
    if as_json:
        print_json(context.messages)
    else:
        _print_pretty(context)


def _print_pretty(context: Context) -> None:
    console = stdout()
    # In chat's shape: the parts and items of other dialects hold their texts elsewhere.
    for message in context.messages_for("chat"):
        role = str(message.get("role", ""))
        name = message.get("name") or message.get("tool_call_id")
        console.print(
            clean(f"{role} ({name})" if name else role),
            style=f"bold {_STYLES.get(role, 'yellow')}",
            markup=False,
        )
        for line in _lines(message):
            console.print(clean(line), markup=False, soft_wrap=True)
        console.print()
    console.print(_footer(context), style="dim", markup=False, soft_wrap=True)


def _lines(message: JsonMessage) -> Iterable[str]:
    """The message's text, parts and calls, as lines."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield _part(part)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield f"→ {function.get('name', call.get('type'))}({function.get('arguments', '')})"


def _part(part: dict[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    url = str((part.get("image_url") or {}).get("url", ""))
    if url.startswith("data:"):
        return f"[{part.get('type')}: {url[5:].partition(';')[0]}, {len(url):,} characters]"
    return f"[{part.get('type')}: {url}]" if url else f"[{part.get('type')}]"


def _footer(context: Context) -> str:
    basis = "exact" if context.exact else "at most"
    text = (
        f"{context.session}: {count(len(context.messages), 'message')}, "
        f"{count(context.tokens, 'token')} ({basis}), version {context.version}, "
        f"turns to {context.last_seq}, summary to {context.watermark}"
    )
    if unshown := context.left_out_for("chat"):
        text += f"; not shown: {', '.join(unshown)}"
    if left_out := context.projection:
        text += f"; this read left out {count(left_out.turns, 'turn')} to stay under the limit"
    return text


# --- transcript and export ------------------------------------------------------------------------

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
]


def transcript(
    session: SessionName,
    connection: Connection,
    output: Output = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """Print the whole session from its first turn as markdown, also what was compacted.

    With --json it is what `turnmill export` prints.
    """
    found = whole_session(connection, session, timeout)
    _give(found.model_dump_json() if as_json else markdown(found), found, output)


def export(
    session: SessionName,
    connection: Connection,
    output: Output = None,
    as_json: JsonFlag = False,  # noqa: ARG001 - it never prints anything else
    timeout: Timeout = 30.0,
) -> None:
    """Print the whole session as JSON, which `turnmill visualize` and `Trajectory` can read."""
    transcript(session, connection, output, True, timeout)


def whole_session(connection: Connection, session: str, timeout_s: float) -> Trajectory:
    """The session's trajectory, with the context that its agent reads now unless it has expired.

    Raises:
        UnknownSession: neither Redis nor the archive has it.
        NotAnswered: no worker answered in time.
    """
    with connection.client(hints=True) as client, asking(timeout_s):
        found = client.trajectory(session, timeout_s=timeout_s)
        with suppress(UnknownSession):  # expired: only the archive has it
            messages = client.read(session).messages
            found = found.model_copy(update={"context": tuple(messages)})
    return found


def _give(text: str, found: Trajectory, output: Path | None) -> None:
    if output is None:
        print_text(text)
        return
    write_file(output, text)
    print_note(f"wrote {count(len(found.turns), 'turn')} to {output}")


def write_file(path: Path, text: str) -> None:
    """Write the text as UTF-8, with ``?`` for half characters.

    Raises:
        CommandFailed: names the file and the reason.
    """
    try:
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
