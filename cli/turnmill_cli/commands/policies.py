"""``turnmill policies``: a namespace's policies by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill.contract.errors import UnknownPolicy
from turnmill.contract.plural import count
from turnmill.contract.policy import Policy
from turnmill_cli.options import Connection, GroupApp, JsonFlag, PolicyOptions
from turnmill_cli.output import (
    clean,
    field_table,
    print_json,
    print_line,
    print_rows,
    print_table,
)

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient

PolicyName = Annotated[
    str, typer.Argument(metavar="NAME", help="The policy's name.", show_default=False)
]

policies_app = GroupApp(help="List, show or set a namespace's named policies.")


@policies_app.command("list")
def list_policies(connection: Connection, as_json: JsonFlag = False) -> None:
    """List the namespace's policies. `default` is for sessions opened without one."""
    with connection.client() as client:
        found = client.policies()
    if as_json:
        print_json({name: policy.model_dump(mode="json") for name, policy in found.items()})
        return
    print_rows(
        list(found.items()),
        {
            "name": lambda each: each[0],
            "hard limit": lambda each: each[1].hard_limit,
            "soft": lambda each: f"{each[1].soft_ratio:.0%}",
            "target": lambda each: f"{each[1].target_ratio:.0%}",
            "strategies": lambda each: " → ".join(each[1].strategies),
        },
        none=f"no named policies in namespace {connection.namespace}",
    )


@policies_app.command("show")
def show_policy(name: PolicyName, connection: Connection, as_json: JsonFlag = False) -> None:
    """Show a policy, field by field. Fields that differ from the built-in default stand out."""
    with connection.client() as client:
        policy = named(client, name)
    if as_json:
        print_json(policy.model_dump(mode="json"))
    else:
        _print_fields(policy)


@policies_app.command("set")
def set_policy(
    name: PolicyName, options: PolicyOptions, connection: Connection, as_json: JsonFlag = False
) -> None:
    """Set a policy, or change one. Sessions that follow its name take it up at once.

    Starts from --preset, from --policy, or from what NAME stands for now.
    """
    with connection.client(hints=True) as client:
        made = options.build(
            lambda: client.policies().get(name, Policy()), lambda other: named(client, other)
        )
        followers = client.set_policy(name, made)
    if as_json:
        print_json({"name": name, "policy": made.model_dump(mode="json"), "followers": followers})
        return
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


def _print_fields(policy: Policy) -> None:
    usual: dict[str, Any] = Policy().model_dump(mode="json")
    table = field_table()
    for field, value in policy.model_dump(mode="json").items():
        differs = value != usual[field]
        table.add_row(field, clean(_shown(value)), style="bold" if differs else None)
    print_table(table)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return "–" if value is None else str(value)
