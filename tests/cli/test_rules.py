"""turnmill rules."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.commands import Ran
from turnmill import ContextClient


def test_the_rules_of_a_session_are_listed(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    agent = client.manager("s")
    agent.instruct("Never email me.")
    agent.instruct("Always answer in German.")

    table = turnmill("rules", "s").stdout
    found = turnmill("rules", "s", "--json").json

    assert "Never email me." in table
    assert [(rule["id"], rule["text"]) for rule in found] == [
        ("1", "Never email me."),
        ("2", "Always answer in German."),
    ]
