"""The request an agent works on stands in every later context, whatever the policy."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, legal_conversations
from tests.properties.test_compaction_properties import COUNTER, compact, rendered, snapshot_of
from tests.properties.test_rules_stand import is_there, policies, some, spoken, with_turns
from turnmill.contract.policy import Policy
from turnmill.contract.tail import TailTurn
from turnmill.projection import project
from turnmill.read_reply import bound
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.tokens.messages import count_request

TASK = "Fix parse_header in http/head.py:\n\n    raise ValueError(line)\n\nKeep its name."


def called(name: str) -> GivenTurn:
    call = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return GivenTurn(
        (
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": "done"},
        )
    )


def requests_of(snapshot: Snapshot) -> list[str]:
    return [request.text for request in snapshot.stored.requests]


@some
@given(
    said=st.lists(legal_conversations(12, least=6, pins=False), min_size=3, max_size=5),
    policy=policies,
)
def test_the_first_request_stands_in_every_later_context(
    said: list[list[GivenTurn]], policy: Policy
) -> None:
    snapshot = snapshot_of([spoken(TASK), called("look")], policy)
    commits = 0

    for part in said:
        snapshot = with_turns(snapshot, [called("look"), *part])
        done = compact(snapshot)
        if done is not None:
            commits += 1
            snapshot = done.after
        assert is_there(TASK, rendered(snapshot))
        assert snapshot.stored.watermark == 0 or requests_of(snapshot)[0] == TASK

    assume(commits)


@some
@given(said=legal_conversations(30, least=8, pins=False), policy=policies)
def test_it_stands_in_what_a_projection_shows_and_within_the_limit(
    said: list[GivenTurn], policy: Policy
) -> None:
    snapshot = snapshot_of([spoken(TASK), called("look"), *said], policy)
    tail = [TailTurn(t.seq, t.shown, bound(t.shown)) for t in snapshot.turns]

    shown = project("", snapshot.stored, tail, policy.limits(0), bound, fixed_tokens=3)

    assert count_request(COUNTER, shown.messages) <= shown.tokens <= policy.hard_limit
    # One that later requests followed may be shortened: they have little room.
    left = "an earlier request" if is_there("an earlier request", shown.messages) else TASK[:40]
    assert is_there(left, shown.messages)
