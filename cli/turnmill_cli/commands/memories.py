"""``turnmill ground`` and ``turnmill remember``: what a namespace knows, from every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    Target,
    Timeout,
)
from turnmill_cli.output import print_json, print_line, print_note, when

if TYPE_CHECKING:
    from turnmill.contract.results import GroundedMemory

__all__ = ["register"]

MOST_LINES = 8
"""Of one memory on a terminal; --json has all of it."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(ground)
    app.command()(remember)


def ground(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="At most so many.")] = 5,
    as_json: JsonFlag = False,
    timeout: Timeout = 10.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Print what the namespace remembers about a query, the most relevant first."""
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        found = client.ground(query, k, timeout_s=timeout)
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
    print_line(f"{memory.relevance:.2f}  {memory.kind}{whose}{who}{at}", "bold")
    lines = [line for line in memory.text.splitlines() if line.strip()]
    for line in lines[:MOST_LINES]:
        print_line(f"      {line}")
    if len(lines) > MOST_LINES:
        print_line(f"      … {len(lines) - MOST_LINES} more lines", "dim")


def remember(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    timeout: Timeout = 10.0,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Have the namespace remember a text, for every session's grounding; prints the memory's id."""
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        print_line(client.remember(text, timeout_s=timeout))
