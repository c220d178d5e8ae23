"""``turnmill push SESSION``: JSON lines from stdin become turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

import typer

from turnmill.contract.errors import InvalidTurn, TurnmillError
from turnmill.contract.turns import TurnLike
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
)
from turnmill_cli.output import count, print_error, print_json, print_note

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(push)


def push(
    session: SessionName,
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Push the turns on stdin, one JSON value a line: a turn, a message, or a list of messages.

    Prints each turn's seq. A line that is refused ends it: what came before is pushed, what
    follows is not.
    """
    if sys.stdin.isatty():
        print_note("reading turns from the terminal, one JSON value a line; Ctrl-D ends")
    target = Target(redis_url, broker_url, namespace)
    pushed = duplicates = number = 0
    try:
        with target.client(hints=True) as client:
            for number, turn in _turns(sys.stdin.buffer):  # noqa: B007 - named in the error
                done = client.push(session, turn())
                pushed += not done.duplicate
                duplicates += done.duplicate
                _report(done.seq, done.turn_id, done.duplicate, as_json=as_json)
    except TurnmillError as error:
        print_error(error, where=f"line {number}: " if number else "")
        raise typer.Exit(1) from None
    finally:
        again = f", {count(duplicates, 'duplicate')}" if duplicates else ""
        print_note(f"pushed {count(pushed, 'turn')} to {session}{again}")


class _Line:
    """One line, parsed when called, so that a bad one is reported under its number."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __call__(self) -> TurnLike:
        try:
            value: TurnLike = json.loads(self._text)
        except RecursionError:
            raise InvalidTurn("nested too deeply") from None
        except ValueError as error:
            # Not the parser's own words: it may quote the line.
            at = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
            raise InvalidTurn(f"{len(self._text)} bytes that are not JSON{at}") from None
        return value


def _turns(lines: Iterable[bytes]) -> Iterator[tuple[int, _Line]]:
    """Every line that is not blank, with its number from 1."""
    for number, line in enumerate(lines, 1):
        if text := line.strip():
            yield number, _Line(text)


def _report(seq: int, turn_id: str, duplicate: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"seq": seq, "turn_id": turn_id, "duplicate": duplicate})
    else:
        sys.stdout.write(f"{seq}\n")
        sys.stdout.flush()
