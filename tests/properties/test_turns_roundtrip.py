"""What is pushed is what is read: every JSON value, every field, every character."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.strategies import json_values
from turnmill import ContextClient, InvalidTurn, Policy
from turnmill.contract.turns import encode_turn, to_turn

anything = st.text(max_size=60)  # lone surrogates and NULs included
unknown_fields = st.dictionaries(
    st.text(min_size=1, max_size=8).map(lambda name: f"x_{name}"), json_values, max_size=3
)
roomy = Policy(max_tokens=200_000)


def as_json(value: object) -> str:
    """Tells 1 from 1.0 and from True, which == does not."""
    return json.dumps(value, sort_keys=True)


@given(st.sampled_from(["user", "assistant", "system", "developer"]), anything, unknown_fields)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_message_is_read_as_it_was_pushed(
    client: ContextClient, role: str, content: str, extra: dict[str, Any]
) -> None:
    session = uuid.uuid4().hex
    client.open(session, roomy)
    message = {"role": role, "content": content, **extra}

    client.push(session, message)

    assert as_json(client.read(session).messages) == as_json([message])


@given(anything, anything, unknown_fields)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_and_results_are_read_as_they_were_pushed(
    client: ContextClient, argument: str, result: str, extra: dict[str, Any]
) -> None:
    session = uuid.uuid4().hex
    client.open(session, roomy)
    function = {"name": "f", "arguments": json.dumps([argument]), **extra}
    calling = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function, **extra}],
    }
    answer = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": result}]}

    client.push(session, [calling, answer])

    assert as_json(client.read(session).messages) == as_json([calling, answer])


@given(json_values)
def test_a_turn_is_encoded_as_the_json_it_is(value: Any) -> None:
    message = {"role": "user", "content": "hi", "x_": value}

    body, fields = encode_turn(to_turn({"messages": [message], "metadata": {"m": value}}))

    assert as_json(json.loads(body)) == as_json([message])
    assert as_json(json.loads(fields)) == as_json({"metadata": {"m": value}})


@pytest.mark.parametrize("depth", [200, 400, 1_000, 100_000])
@pytest.mark.parametrize("place", ["message", "metadata"])
def test_nesting_no_reader_would_follow_is_refused(place: str, depth: int) -> None:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    message = {"role": "user", "content": "hi"}
    turn = {
        "message": {**message, "x_": value},
        "metadata": {"messages": [message], "metadata": {"m": value}},
    }[place]

    with pytest.raises(InvalidTurn) as refused:
        encode_turn(to_turn(turn))

    assert len(str(refused.value)) < 400
    while isinstance(value, list):  # taken apart here: its own end would recurse too deep
        (value,) = value


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["message", "metadata"])
def test_numbers_json_does_not_have_are_refused(place: str, number: float) -> None:
    message: dict[str, Any] = {"role": "user", "content": "hi"}
    turn = {
        "message": {**message, "x_": number},
        "metadata": {"messages": [message], "metadata": {"m": number}},
    }[place]

    with pytest.raises(InvalidTurn):
        encode_turn(to_turn(turn))
