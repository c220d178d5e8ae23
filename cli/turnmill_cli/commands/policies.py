"""``turnmill policies``: a namespace's policies by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill.contract.errors import UnknownPolicy
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    Target,
)
from turnmill_cli.output import clean, count, print_json, print_line, stdout
from turnmill_cli.policy_options import (
    Fields,
    MaxTokens,
    PolicyNameOrFile,
    PolicyOptions,
    PresetName,
)

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient
    from turnmill.contract.policy import Policy

__all__ = ["named", "register"]

PolicyName = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]

_group = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(_group, name="policies", help="List, show or set a namespace's named policies.")


@_group.command("list")
def list_policies(
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """List the namespace's policies; `default` is for sessions opened without one."""
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.policies()
    if as_json:
        print_json({name: policy.model_dump(mode="json") for name, policy in found.items()})
    elif not found:
        print_line(f"no named policies in namespace {namespace}")
    else:
        _print_table(found)


@_group.command("show")
def show_policy(
    name: PolicyName,
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Show a policy, field by field; what differs from the built-in default stands out."""
    with Target(redis_url, broker_url, namespace).client() as client:
        policy = named(client, name)
    if as_json:
        print_json(policy.model_dump(mode="json"))
    else:
        _print_fields(policy)


@_group.command("set")
def set_policy(
    name: PolicyName,
    policy: PolicyNameOrFile = "",
    preset: PresetName = None,
    max_tokens: MaxTokens = None,
    fields: Fields = None,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Give the namespace a policy, or change it; sessions that follow its name take it up at once.

    Starts from --preset, from --policy, or from what NAME stands for now.
    """
    from turnmill.contract.policy import Policy  # noqa: PLC0415

    options = PolicyOptions(
        policy=policy, preset=preset, max_tokens=max_tokens, fields=tuple(fields or ())
    )
    with Target(redis_url, broker_url, namespace).client(hints=True) as client:
        made = options.build(
            lambda: client.policies().get(name, Policy()), lambda other: named(client, other)
        )
        followers = client.set_policy(name, made)
    print_line(
        f"policy {name}: hard limit {made.hard_limit:,} tokens, {' → '.join(made.strategies)}; "
        f"{count(followers, 'session')} took it up"
    )


def named(client: ContextClient, name: str) -> Policy:
    """The namespace's policy of this name.

    Raises:
        UnknownPolicy: there is none; says which there are.
    """
    found = client.policies()
    if name not in found:
        known = ", ".join(found) or "none"
        raise UnknownPolicy(f"no policy {name!r} in namespace {client.namespace!r}; known: {known}")
    return found[name]


def _print_table(found: dict[str, Policy]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("name", overflow="fold")
    table.add_column("hard limit", justify="right", no_wrap=True)
    table.add_column("soft", justify="right", no_wrap=True)
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("strategies", overflow="fold")
    for name, policy in found.items():
        table.add_row(
            clean(name),
            f"{policy.hard_limit:,}",
            f"{policy.soft_ratio:.0%}",
            f"{policy.target_ratio:.0%}",
            " → ".join(policy.strategies),
        )
    stdout().print(table, markup=False)


def _print_fields(policy: Policy) -> None:
    from rich.table import Table  # noqa: PLC0415

    usual: dict[str, Any] = type(policy)().model_dump(mode="json")
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for field, value in policy.model_dump(mode="json").items():
        table.add_row(field, clean(_shown(value)), style=None if value == usual[field] else "bold")
    stdout().print(table, markup=False)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return "–" if value is None else str(value)
