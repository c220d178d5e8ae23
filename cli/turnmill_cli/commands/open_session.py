"""``turnmill open SESSION``: create it, or change its policy, system prompt or tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill.contract.errors import UnknownSession
from turnmill.contract.policy import Policy
from turnmill_cli.commands.info import as_dict
from turnmill_cli.commands.policies import named
from turnmill_cli.options import Connection, JsonFlag, SessionName
from turnmill_cli.output import print_json, print_line
from turnmill_cli.policy_options import PolicyOptions, text_of

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient

__all__ = ["open_session"]


def open_session(
    session: SessionName,
    options: PolicyOptions,
    connection: Connection,
    system_prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT|@FILE", help="The system prompt, or @ and its file."),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The schemas of its tools: a file with a JSON list."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a session, or change its policy, system prompt or tools. What is not given stays.

    A session opened with only the name of a policy follows it: `turnmill policies set` changes the
    policy of all its followers.
    """
    prompt = system_prompt
    if system_prompt is not None and system_prompt.startswith("@"):
        prompt = text_of(Path(system_prompt[1:]), "--system-prompt")
    schemas = None if tools is None else _schemas(tools)
    with connection.client(hints=True) as client:
        client.open(session, _chosen(client, session, options), prompt, tools=schemas)
        found = client.info(session)
    if as_json:
        print_json(as_dict(found))
        return
    follows = f", policy {found.policy_name}" if found.policy_name else ""
    limits = found.limits
    print_line(
        f"opened {session}{follows}: hard limit {limits.hard:,} tokens, compacts above "
        f"{limits.soft:,} to {limits.target:,}"
    )


def _schemas(file: Path) -> Any:
    try:
        return json.loads(text_of(file, "--tools"))
    except ValueError:
        raise typer.BadParameter(f"{file}: not JSON", param_hint="--tools") from None


def _chosen(client: ContextClient, session: str, options: PolicyOptions) -> Policy | str | None:
    if not options.given:
        return None
    return options.name or options.build(
        lambda: _present_policy(client, session), lambda name: named(client, name)
    )


def _present_policy(client: ContextClient, session: str) -> Policy:
    try:
        return client.info(session).policy
    except UnknownSession:
        return Policy()
