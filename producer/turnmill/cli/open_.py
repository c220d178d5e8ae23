"""``turnmill open SESSION``: create it, or change its policy or system prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnmill.cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
)
from turnmill.client import ContextClient
from turnmill.contract.errors import UnknownSession
from turnmill.contract.policy import Policy

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("open")(open_session)


def open_session(
    session: SessionName,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy, a JSON object.")
    ] = None,
    system_prompt: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="The system prompt, or its file.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="The hard limit; the rest of the policy stays.")
    ] = None,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Create a session, or change its policy or system prompt; what is not given stays."""
    prompt = system_prompt
    if system_prompt is not None and system_prompt.startswith("@"):
        prompt = _text_of(Path(system_prompt[1:]), "--system-prompt")
    chosen = Policy.from_json(_text_of(policy, "--policy")) if policy else None
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        if max_tokens is not None:
            base = chosen or _present_policy(client, session)
            chosen = Policy(**{**base.model_dump(), "max_tokens": max_tokens})
        client.open(session, chosen, prompt)
        limits = client.info(session).limits
    typer.echo(
        f"opened {session}: hard limit {limits.hard:,} tokens, compacts above {limits.soft:,} "
        f"to {limits.target:,}"
    )


def _present_policy(client: ContextClient, session: str) -> Policy:
    try:
        return client.info(session).policy
    except UnknownSession:
        return Policy()


def _text_of(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise typer.BadParameter(f"{path}: {reason}", param_hint=option) from None
