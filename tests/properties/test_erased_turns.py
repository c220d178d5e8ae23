"""What holds of a conversation when some of its turns were erased."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, conversations, legal_conversations, turns
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import repair, violations
from turnmill.contract.names import Seq
from turnmill.contract.turns import to_turn
from turnmill_worker.ports.values import ArchivedTurn
from turnmill_worker.requests.erasure import runs, said, tombstone

AT_MS = 1_700_000_000_000


def archived(seq: int, given_turn: GivenTurn) -> ArchivedTurn:
    return ArchivedTurn(
        seq=Seq(seq),
        messages=encode_json(list(given_turn.messages)),
        turn_id=f"t-{seq}",
        fields=encode_json({"iteration": 3, "metadata": {"note": "told in confidence"}}),
        at_ms=AT_MS,
        tokens=9,
    )


def tomb(turn: ArchivedTurn) -> ArchivedTurn:
    return tombstone(turn, at_ms=AT_MS, renamed=lambda name: name)


def with_some_erased(said_turns: list[GivenTurn], erased: set[int]) -> list[JsonMessage]:
    found: list[JsonMessage] = []
    for seq, each in enumerate(said_turns):
        turn = archived(seq, each)
        found += decode_json((tomb(turn) if seq in erased else turn).messages)
    return found


chosen = st.sets(st.integers(0, 20))


@given(legal_conversations(6), chosen)
def test_a_legal_conversation_stays_legal_whatever_is_erased(
    said_turns: list[GivenTurn], erased: set[int]
) -> None:
    assert violations(with_some_erased(said_turns, erased)) == []


@given(st.lists(turns(6), max_size=12) | conversations(6), chosen)
def test_erasing_changes_no_role_and_no_pair_of_any_conversation(
    said_turns: list[GivenTurn], erased: set[int]
) -> None:
    before = repair([message for each in said_turns for message in each.messages])

    after = repair(with_some_erased(said_turns, erased))

    assert violations(after) == []
    assert [m["role"] for m in after] == [m["role"] for m in before]
    calls = [[call["id"] for call in m.get("tool_calls") or ()] for m in after]
    assert calls == [[call["id"] for call in m.get("tool_calls") or ()] for m in before]
    assert [m.get("tool_call_id") for m in after] == [m.get("tool_call_id") for m in before]


@given(turns(20))
def test_a_tombstone_has_no_words_of_its_turn(given_turn: GivenTurn) -> None:
    turn = archived(3, given_turn)

    erased = tomb(turn)

    assert runs(said(erased)).isdisjoint(runs(said(turn)))
    assert to_turn({"messages": decode_json(erased.messages)})
    assert (erased.seq, erased.turn_id, erased.blobs) == (turn.seq, turn.turn_id, ())
    assert json.loads(erased.fields) == {"erased_at_ms": AT_MS, "iteration": 3}
    assert erased.erased_at_ms == AT_MS
    assert tomb(erased).messages == erased.messages
