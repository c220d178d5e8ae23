"""``turnmill push SESSION``: JSON lines from stdin become turns."""

from __future__ import annotations

import json
import sys

import typer

from turnmill.contract.errors import InvalidTurn, TurnmillError
from turnmill.contract.names import session_id
from turnmill.contract.turns import TurnLike
from turnmill_cli.options import Connection, JsonFlag, SessionName
from turnmill_cli.output import count, print_error, print_json, print_note

__all__ = ["push"]


def push(session: SessionName, connection: Connection, as_json: JsonFlag = False) -> None:
    """Push turns from stdin, one JSON value per line: a turn, a message, or a list of messages.

    Prints the seq of each turn. The first line that is refused ends the command: earlier lines are
    pushed, later ones are not.
    """
    session_id(session)
    if sys.stdin.isatty():
        print_note("Reading turns from the terminal, one JSON value per line. Ctrl-D ends.")
    pushed = duplicates = number = 0
    try:
        with connection.client(hints=True) as client:
            for number, line in enumerate(sys.stdin.buffer, 1):  # noqa: B007 - an error names it
                if not line.strip():
                    continue
                done = client.push(session, _turn(line.strip()))
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
