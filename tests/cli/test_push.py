from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient

SECRET = "the vault code is 7731"  # noqa: S105 - what no error may repeat


def test_each_line_becomes_a_turn_and_its_seq_is_printed(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    lines = [
        {"role": "user", "content": "one"},
        [{"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}],
        {"messages": [{"role": "assistant", "content": "four"}], "turn_id": "t-4"},
    ]

    ran = turnmill("push", "s", stdin="\n\n".join(json.dumps(line) for line in lines))

    assert ran.exit_code == 0
    assert ran.stdout.split() == ["1", "2", "3"]
    assert "pushed 3 turns to s" in ran.stderr
    assert [m["content"] for m in client.read("s").messages] == ["one", "two", "three", "four"]


def test_a_turn_id_pushed_again_is_a_duplicate(turnmill: Callable[..., Ran]) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}], "turn_id": "t"})

    ran = turnmill("push", "s", "--json", stdin=f"{line}\n{line}\n")

    assert [json.loads(text) for text in ran.stdout.splitlines()] == [
        {"seq": 1, "turn_id": "t", "duplicate": False},
        {"seq": 1, "turn_id": "t", "duplicate": True},
    ]
    assert "pushed 1 turn to s, 1 duplicate" in ran.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f'{{"role": "user", "content": "{SECRET}"', "not JSON"),
        (json.dumps({"role": "robot", "content": SECRET}), "unknown role"),
        (json.dumps(SECRET), "bare str"),
        ("[]", "empty list"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_without_its_content_and_no_line_is_pushed(
    turnmill: Callable[..., Ran], client: ContextClient, line: str, says: str
) -> None:
    good = json.dumps({"role": "user", "content": "fine"})

    ran = turnmill("push", "s", stdin=f"{good}\n\n{line}\n{good}\n")

    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert "line 3: InvalidTurn: " in ran.stderr
    assert says in ran.stderr
    assert "pushed 0 turns to s" in ran.stderr
    assert SECRET not in ran.stderr
    assert client.sessions() == []


def test_a_line_that_is_too_large_is_refused_or_cut_as_one_likes(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    lines = [json.dumps({"role": "user", "content": text}) for text in ("one", "x" * 1_500_000)]

    refused = turnmill("push", "s", stdin="\n".join(lines))
    stored = client.sessions()
    ran = turnmill("push", "s", "--on-too-large", "cut", stdin="\n".join(lines))

    assert (refused.exit_code, ran.exit_code) == (1, 0)
    assert "line 2: TurnTooLarge: " in refused.stderr
    assert stored == []
    assert client.info("s").last_seq == 2


def test_another_turn_under_a_known_id_is_named_by_its_line(turnmill: Callable[..., Ran]) -> None:
    lines = [
        json.dumps({"messages": [{"role": "user", "content": text}], "turn_id": "t"})
        for text in ("one", "other")
    ]

    ran = turnmill("push", "s", stdin="\n".join(lines))

    assert ran.exit_code == 1
    assert ran.stdout.split() == ["1"]
    assert "line 2: TurnConflict: " in ran.stderr


def test_bytes_that_are_no_text_are_a_bad_line(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("push", "s", stdin=b'{"role": "user", "content": "\xff\xfe"}\n')

    assert ran.exit_code == 1
    assert "line 1: InvalidTurn" in ran.stderr


def test_a_bad_session_name_is_an_error_and_not_a_traceback(turnmill: Callable[..., Ran]) -> None:
    ran = turnmill("push", "no spaces", stdin='{"role": "user", "content": "x"}')

    assert ran.exit_code == 2
    assert "InvalidName" in ran.stderr
    assert "Traceback" not in ran.stderr
