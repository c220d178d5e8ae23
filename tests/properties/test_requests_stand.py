"""The request an agent works on stands in every later context, whatever the policy."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, legal_conversations
from tests.properties.test_compaction_properties import compact, rendered, snapshot_of
from tests.properties.test_rules_stand import is_there, policies, some, spoken, with_turns
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.snapshot import Snapshot

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
