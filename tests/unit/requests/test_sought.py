"""Which turns are found for an erasure."""

from __future__ import annotations

from typing import Any

import pytest

from turnmill import InvalidInput
from turnmill.contract.codec import encode_json
from turnmill.contract.erasure import erasing
from turnmill.contract.names import Seq
from turnmill_worker.ports.values import ArchivedTurn
from turnmill_worker.requests.erasure import Sought, said


def turn(*messages: Any, seq: int = 7, turn_id: str = "t", **fields: Any) -> ArchivedTurn:
    return ArchivedTurn(
        seq=Seq(seq),
        messages=encode_json(messages),
        turn_id=turn_id,
        fields=encode_json(fields) if fields else b"",
        at_ms=1,
        tokens=None,
    )


def sought(**how: Any) -> Sought:
    told = {"matching": None, "subject": None, "repeats": False, "by": "", "dry_run": False} | how
    chosen = (told.pop("turns", ()), told.pop("matching"), told.pop("subject"))
    return Sought.of(erasing(*chosen, **told))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calling(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    "found",
    [
        turn(user("Ask ANNA\n  Berg about it.")),
        turn({"role": "user", "name": "Anna Berg", "content": "Hello."}),
        turn(calling('{"who": "Anna\\u0020Berg"}')),
        turn(user("Hello."), metadata={"who": "Anna Berg"}),
        turn(user("Hello."), turn_id="anna berg:1"),
        turn({"role": "tool", "tool_call_id": "c", "content": '{"from": {"name": "Anna Berg"}}'}),
    ],
)
def test_a_name_is_found_wherever_it_stands(found: ArchivedTurn) -> None:
    assert sought(subject="Anna Berg").finds(found)
    assert sought(matching="anna   BERG").finds(found)


def test_a_subject_is_whole_words_and_a_text_is_not() -> None:
    assert not sought(subject="Ann").finds(turn(user("Anna Berg")))
    assert sought(matching="Ann").finds(turn(user("Anna Berg")))
    assert sought(subject="anna@berg.example").finds(turn(user("to <anna@berg.example>.")))
    assert not sought(subject="anna@berg.example").finds(turn(user("to joanna@berg.example")))
    assert sought(subject="4471").finds(turn(calling('{"customer": 4471}')))
    assert not sought(subject="447").finds(turn(calling('{"customer": 4471}')))


def test_a_damaged_turn_is_looked_through_as_far_as_it_goes() -> None:
    damaged = ArchivedTurn(
        seq=Seq(1), messages=b"not json", turn_id="anna", fields=b"{", at_ms=1, tokens=None
    )

    assert said(damaged) == "anna"
    assert not sought(matching="Berg").finds(turn(calling("[" * 100_000)))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"turns": [1], "matching": "a"},
        {"turns": [0]},
        {"matching": "  "},
        {"subject": "a", "by": "x" * 201},
    ],
)
def test_an_erasure_says_of_what_in_one_way(how: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        sought(**how)
