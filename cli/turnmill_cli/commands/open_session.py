"""``turnmill open SESSION``: create it, or change its policy or system prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnmill._sync.client import ContextClient
from turnmill.contract.errors import UnknownSession
from turnmill.contract.policy import Policy
from turnmill_cli.commands.policies import named
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
)
from turnmill_cli.output import print_line
from turnmill_cli.policy_options import (
    Fields,
    MaxTokens,
    PolicyNameOrFile,
    PolicyOptions,
    PresetName,
    text_of,
)

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("open")(open_session)


def open_session(
    session: SessionName,
    *,
    policy: PolicyNameOrFile = "",
    preset: PresetName = None,
    max_tokens: MaxTokens = None,
    fields: Fields = None,
    system_prompt: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="The system prompt, or its file.")
    ] = None,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Create a session, or change its policy or system prompt; what is not given stays.

    A policy given by name alone is followed: `turnmill policies set` changes it for all who do.
    """
    prompt = system_prompt
    if system_prompt is not None and system_prompt.startswith("@"):
        prompt = text_of(Path(system_prompt[1:]), "--system-prompt")
    options = PolicyOptions(
        policy=policy, preset=preset, max_tokens=max_tokens, fields=tuple(fields or ())
    )
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        client.open(session, _chosen(client, session, options), prompt)
        found = client.info(session)
    follows = f", policy {found.policy_name}" if found.policy_name else ""
    limits = found.limits
    print_line(
        f"opened {session}{follows}: hard limit {limits.hard:,} tokens, compacts above "
        f"{limits.soft:,} to {limits.target:,}"
    )


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
