"""policies, and what `open` makes of their options."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient, Policy


def test_a_policy_is_set_listed_and_shown(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    ran = turnmill(
        "policies", "set", "shop", "--max-tokens", "3000", "--set", "summarizer=extractive"
    )
    listed = turnmill("policies", "list", "--json").json
    table = turnmill("policies", "list")
    shown = turnmill("policies", "show", "shop")

    assert ran.exit_code == 0
    assert "0 sessions took it up" in ran.stdout
    assert client.policies() == {"shop": Policy(max_tokens=3000)}
    assert listed["shop"]["max_tokens"] == 3000
    assert "3,000" in table.stdout
    assert "recent_turns_to_keep" in shown.stdout
    assert turnmill("policies", "show", "shop", "--json").json == listed["shop"]


def test_setting_again_changes_only_what_is_given_and_reaches_who_follows(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill("policies", "set", "shop", "--max-tokens", "3000", "--set", "recent_turns_to_keep=7")
    opened = turnmill("open", "s", "--policy", "shop")

    ran = turnmill("policies", "set", "shop", "--max-tokens", "4000")

    assert "opened s, policy shop: hard limit 3,000" in opened.stdout
    assert "1 session took it up" in ran.stdout
    assert client.info("s").policy == Policy(max_tokens=4000, recent_turns_to_keep=7)
    assert client.info("s").policy_name == "shop"
    assert "shop (2 changes)" in turnmill("info", "s").stdout


def test_an_option_beside_the_name_makes_a_policy_of_the_sessions_own(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill("policies", "set", "shop", "--set", "recent_turns_to_keep=7")

    turnmill("open", "s", "--policy", "shop", "--max-tokens", "2000")

    assert client.info("s").policy == Policy(recent_turns_to_keep=7, max_tokens=2000)
    assert client.info("s").policy_name == ""


def test_a_field_takes_json_and_plain_words(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    turnmill(
        *("open", "s", "--set", 'strategies=["elide","window"]', "--set", "encoding=cl100k_base"),
        *("--set", "keep_first_image=false"),
    )

    found = client.info("s").policy
    assert found.strategies == ("elide", "window")
    assert (found.encoding, found.keep_first_image) == ("cl100k_base", False)


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (("policies", "show", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("policies", "set", "a", "--policy", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("open", "s", "--policy", "nope"), 1, "UnknownPolicy: no policy 'nope'"),
        (("policies", "set", "a", "--set", "nope=1"), 2, "InvalidPolicy: policy: no field 'nope'"),
        (("policies", "set", "a b"), 2, "Invalid"),
        (("policies", "set", "a", "--set", "max_tokens"), 2, "FIELD=VALUE"),
        (("policies", "set", "a", "--preset", "managed", "--policy", "b"), 2, "--preset"),
        (("policies", "set", "a", "--preset", "magic"), 2, "--preset"),
        (
            ("open", "s", "--set", "max_interactions=3", "--set", 'strategies=["rolling"]'),
            2,
            "max_interactions=3 needs 'window' in strategies",
        ),
    ],
)
def test_what_is_no_policy_is_one_clear_refusal(
    turnmill: Callable[..., Ran], words: tuple[str, ...], exit_code: int, says: str
) -> None:
    ran = turnmill(*words)

    assert ran.exit_code == exit_code
    assert says in ran.stderr
    assert ran.stdout == ""
