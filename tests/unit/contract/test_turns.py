"""What ``push`` accepts, and what it says, without quoting anybody, when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import InvalidTurn, Message, Turn, TurnTooLarge
from turnmill.contract.turns import ROLES, encode_turn, to_turn

HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    "given_as",
    [HI, [HI], (HI,), {"messages": [HI]}, Message(role="user", content="hi")],
    ids=["a mapping", "a list", "a tuple", "a turn as a mapping", "a Message"],
)
def test_one_message_is_a_turn_however_it_is_given(given_as: object) -> None:
    assert to_turn(given_as).messages == (Message(role="user", content="hi"),)


def test_a_turn_stays_as_it_is() -> None:
    turn = Turn(messages=(Message(role="user", content="hi"),), pinned=True, iteration=3)

    assert to_turn(turn) is turn


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ({"role": "robot", "content": "x"}, r"role: unknown role.*allowed are system, developer"),
        ([], "messages: got an empty list; a turn has at least one message"),
        ({"messages": []}, "messages: .*at least 1"),
        ("hi", "turn: got a bare str of length 2; allowed are"),
        (b"hi", "turn: got a bare bytes of length 2; allowed are"),
        (None, "turn: got NoneType; allowed are"),
        ({"role": "tool", "content": "x"}, "role tool needs tool_call_id"),
        ({"role": "user"}, "a message of role user needs content"),
        ({**HI, "tool_calls": [{"id": "1", "type": "custom"}]}, "tool_calls are for role assist"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "needs function.name and function.a"),
        ({"role": "assistant", "tool_calls": [{"id": ""}]}, r"tool_calls\[0\].id: .*at least 1"),
        ({"role": "user", "content": 7}, "content: must be text or a list of parts .got int"),
        ({"role": "user", "content": [{"type": "text"}]}, "a part of type text needs text"),
        ({"messages": [HI], "turn_id": ""}, "turn_id: .*at least 1 character"),
        ({"messages": [HI], "turn_id": "x" * 201}, "turn_id: .*at most 200 .*length 201"),
        ({"messages": [HI], "iteration": -1}, "iteration: .*greater than or equal to 0"),
        ({"messages": [HI], "metadata": {"k": object()}}, "metadata.*not.* JSON"),
    ],
)
def test_a_refusal_names_the_field_the_kind_and_what_is_allowed(refused: object, says: str) -> None:
    with pytest.raises(InvalidTurn, match=says):
        encode_turn(to_turn(refused))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "image_url.url must be a str, got NoneType"),
        ("ftp://host/x.png", "must be a data:, http"),
        ("data:image/png,raw", "malformed data URL: must be data:<type>/<subtype>;base64,<data>"),
        ("data:image/png;base64,%%%%", "its 4 characters of data are not base64"),
    ],
)
def test_a_malformed_image_url_is_refused(url: object, says: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}

    with pytest.raises(InvalidTurn, match=says):
        to_turn({"role": "user", "content": [part]})


@pytest.mark.parametrize(
    "url", ["https://host/x.png", "file:///x.png", "data:image/png;base64,aGk="]
)
def test_a_well_formed_image_url_is_taken(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}

    assert to_turn({"role": "user", "content": [part]})


def test_a_turn_over_the_limit_is_refused_with_both_sizes() -> None:
    turn = to_turn({"role": "user", "content": "x" * 100})

    with pytest.raises(TurnTooLarge, match=r"turn: 1\d\d bytes of JSON; at most 100 are allowed"):
        encode_turn(turn, max_bytes=100)


def test_a_turn_of_exactly_the_limit_is_taken() -> None:
    turn = to_turn({"role": "user", "content": "x" * 100})
    size = len(encode_turn(turn)[0])

    assert encode_turn(turn, max_bytes=size)


def test_two_turn_ids_that_differ_are_refused() -> None:
    with pytest.raises(InvalidTurn, match="turn_id: given both"):
        to_turn({"messages": [HI], "turn_id": "one"}, turn_id="other")


SECRET = "Xq7SECRETq7X"  # noqa: S105 - what must not be quoted
secret = st.just(SECRET)
holders = st.recursive(
    secret | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(secret, inner, max_size=2),
    max_leaves=6,
)
bad_messages = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(ROLES) | holders,
        "content": holders | st.lists(st.fixed_dictionaries({"type": holders, "text": holders})),
        "tool_calls": holders | st.lists(st.fixed_dictionaries({"id": holders})),
        "tool_call_id": holders,
        "name": holders,
        SECRET: holders,
    },
)
bad_turns = bad_messages | st.fixed_dictionaries(
    {"messages": st.lists(bad_messages, max_size=2)},
    optional={"metadata": holders, "turn_id": holders, "iteration": holders, SECRET: holders},
)


@given(bad_turns)
def test_no_refusal_ever_quotes_what_it_was_given(turn: dict[str, Any]) -> None:
    try:
        encode_turn(to_turn(turn), max_bytes=64)
    except InvalidTurn as error:
        said = f"{error} {error.__cause__}"
    else:
        said = ""

    assert SECRET not in said
