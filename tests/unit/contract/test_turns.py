"""What a push accepts, what it stores, and what it says, quoting nobody, when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plain_cipher import cipher
from turnmill import InvalidTurn, TurnTooLarge
from turnmill.client.commands import Commands
from turnmill.contract.context import StoredContext
from turnmill.contract.errors import CannotDecrypt
from turnmill.contract.formats import readable
from turnmill.contract.log_entry import decode_turns
from turnmill.contract.names import Seq
from turnmill.contract.render import rule_line
from turnmill.contract.rules import Mark, Rule, Said, with_marked
from turnmill.contract.sealing import MARK, Digest, sealed
from turnmill.contract.turns import ROLES, encode_turn, to_turn

# What ``push`` accepts, and what it says, without quoting anybody, when it does not.

HI = {"role": "user", "content": "hi"}
CUSTOM = {"id": "1", "type": "custom", "custom": {"name": "run", "input": ""}}


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ({"role": "robot", "content": "x"}, r"role: unknown role.*allowed are system, developer"),
        ({"messages": []}, "messages: .*at least 1"),
        ("hi", "turn: got a bare str of length 2; allowed are"),
        ({"role": "tool", "content": "x"}, "role tool needs tool_call_id"),
        ({**HI, "tool_calls": [CUSTOM]}, "tool_calls is for role assist"),
        ({"role": "user", "content": [{"type": "text"}]}, "a part of type text needs text"),
        ({"messages": [HI], "turn_id": "x" * 201}, "turn_id: .*at most 200 .*length 201"),
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


def test_a_turn_over_the_limit_is_refused_with_both_sizes() -> None:
    turn = to_turn({"role": "user", "content": "x" * 100})

    with pytest.raises(TurnTooLarge, match=r"turn: 1\d\d bytes of JSON; at most 100 are allowed"):
        encode_turn(turn, max_bytes=100)


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


# What a cipher makes of a command's words.


def push(content: str) -> tuple[str | bytes | int, ...]:
    turn = {"role": "user", "content": content}
    made = Commands.of("shop", 1000, 1000).push("s", turn, "t", new_id=str)
    return ("EVALSHA", made.call.script.sha, *made.call.words)


def digest_of(words: tuple[str | bytes | int, ...]) -> Digest:
    [found] = [word for word in words if isinstance(word, Digest)]
    return found


def test_the_digest_of_a_turn_is_of_what_is_stored_and_so_tells_nobody_what_it_may_be() -> None:
    plain, one, other = push("guess"), sealed(cipher, push("guess")), sealed(cipher, push("guess"))

    assert digest_of(plain) == digest_of(push("guess")) != digest_of(push("other"))
    assert len({digest_of(words) for words in (plain, one, other)}) == 3
    stored = [word for word in one if isinstance(word, bytes) and word.startswith(MARK)]
    assert digest_of(one) == Digest.of(*stored, b"")  # it has no fields
    assert not any(b"guess" in word for word in one if isinstance(word, bytes))


def test_whoever_lacks_the_cipher_is_told_and_nothing_is_called_corrupt() -> None:
    body = MARK + cipher.encrypt(b'{"format":"9.0"}', b"")

    for read in (lambda: decode_turns([body]), lambda: readable(body, "stored context")):
        with pytest.raises(CannotDecrypt, match="no cipher"):
            read()


# Rules as a commit stores them, and what marked turns do to them afterwards.

STORED = (Rule(seq=Seq(2), text="Never email me."), Rule(seq=Seq(2), place=2, text="Use metres."))


def user(seq: int, *texts: str, mark: Mark) -> Said:
    return Said(Seq(seq), [{"role": "user", "content": text} for text in texts], mark)


def test_a_revoked_rule_is_gone_stored_or_not() -> None:
    turns = [
        user(5, "Sundays are sacred.", mark=Mark(instructs=True)),
        user(6, "No longer.", mark=Mark(revokes="5")),
        user(7, "Nor this.", mark=Mark(revokes="2")),
        user(8, "Nor what nobody said.", mark=Mark(revokes="4")),
    ]

    assert with_marked(STORED, turns) == STORED[1:]


def test_what_an_older_version_noted_beside_a_rule_is_kept_and_not_shown() -> None:
    old: dict[str, Any] = {
        "seq": 3,
        "text": "Never by plane.",
        "kind": "prohibition",
        "remark": {"seq": 9, "text": "Planes are fine."},
    }

    context = StoredContext.parse(json.dumps({"version": 1, "rules": [old]}).encode())

    assert rule_line(context.rules[0]) == "- (turn 3) Never by plane."
    assert json.loads(context.encode())["rules"] == [old]
