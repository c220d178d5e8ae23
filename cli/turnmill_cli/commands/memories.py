"""``turnmill ground`` and ``turnmill remember``: what a namespace knows, from every session."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmill.contract.plural import count
from turnmill.contract.results import GroundedMemory
from turnmill_cli.options import Connection, JsonFlag, Timeout
from turnmill_cli.output import print_json, print_line, print_note, when
from turnmill_cli.progress import asking

MOST_LINES = 8
"""Of one memory; --json prints all of it."""


def ground(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    connection: Connection,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="Print at most this many.")] = 5,
    session: Annotated[
        str | None, typer.Option("--session", help="Only what was said in this session.")
    ] = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
) -> None:
    """Print what the namespace remembers about a query, most relevant first."""
    with connection.client(hints=True) as client, asking(timeout):
        found = client.ground(query, k, session=session, timeout_s=timeout)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    for memory in found.memories:
        _print(memory)
    if found.degraded:
        print_note(found.degraded)
    if not found.memories:
        print_line("nothing is remembered about that")


def _print(memory: GroundedMemory) -> None:
    whose = f" of {memory.session}" if memory.session else ""
    who = f", {memory.speaker}" if memory.speaker else ""
    at = f", {when(memory.at_ms)}" if memory.at_ms else ""
    place = memory.kind if memory.seq is None else f"{memory.kind} {memory.seq}"
    print_line(f"{memory.relevance:.2f}  {place}{whose}{who}{at}", "bold")
    lines = [line for line in memory.text.splitlines() if line.strip()]
    for line in lines[:MOST_LINES]:
        print_line(f"      {line}")
    if len(lines) > MOST_LINES:
        print_line(f"      … {count(len(lines) - MOST_LINES, 'more line')}", "dim")


def remember(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    connection: Connection,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
) -> None:
    """Add a text to the namespace's memories, for all its sessions, and print the memory's id."""
    with connection.client(hints=True) as client, asking(timeout):
        made = client.remember(text, timeout_s=timeout)
    if as_json:
        print_json({"id": made})
    else:
        print_line(made)
