"""A rule that the open request states stands once in a context, and stays in force."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, legal_conversations
from tests.properties.test_compaction_properties import compact, rendered, snapshot_of
from tests.properties.test_requests_stand import called
from tests.properties.test_rules_stand import is_there, policies, some, spoken, with_turns
from turnmill.contract.context import EMPTY, JsonMessage, OpenRequest
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill.contract.rules import Rule

RULE = "Always answer in German."
TASK = f"Fix parse_header in http/head.py.\n{RULE}"


def times(text: str, messages: list[JsonMessage]) -> int:
    return sum(str(message.get("content")).count(text) for message in messages)


def is_section(message: JsonMessage) -> bool:
    """Whether it has rules or requests, and no summary."""
    return str(message.get("content")).startswith(("[Rules", "[The request", "[What the user"))


@some
@given(
    said=st.lists(legal_conversations(12, least=6, pins=False), min_size=2, max_size=3),
    policy=policies,
)
def test_a_rule_that_the_open_request_states_is_not_said_twice(
    said: list[list[GivenTurn]], policy: Policy
) -> None:
    snapshot = snapshot_of([spoken(TASK), called("look")], policy)
    commits = 0

    for part in said:
        snapshot = with_turns(snapshot, [called("look"), *part])
        done = compact(snapshot)
        if done is None:
            continue
        commits += 1
        snapshot = done.after
        assert is_there(RULE, rendered(snapshot))
        assert snapshot.stored.watermark == 0 or RULE in {r.text for r in snapshot.stored.rules}
        newest = [request for request in snapshot.stored.requests if request.text == TASK]
        if newest and not newest[0].earlier:
            sections = [each for each in render_head(snapshot.stored) if is_section(each)]
            assert times(RULE, sections) == 1

    assume(commits)


def test_what_an_earlier_request_laid_down_is_said_among_the_rules() -> None:
    rule = Rule(seq=Seq(1), text=RULE)
    asked = OpenRequest(seq=Seq(1), text=TASK, first=True)
    done = asked.model_copy(update={"earlier": True})

    while_open = EMPTY.model_copy(update={"rules": (rule,), "requests": (asked,)})
    afterwards = EMPTY.model_copy(update={"rules": (rule,), "requests": (done,)})

    assert times(RULE, render_head(while_open)) == 1
    assert times(RULE, render_head(afterwards)) == 2


def test_a_rule_that_a_shortened_request_no_longer_states_is_said_among_the_rules() -> None:
    rule = Rule(seq=Seq(1), text=RULE)
    asked = OpenRequest(seq=Seq(1), text="Fix parse_header.\n[… 1 line left out]", first=True)

    shown = render_head(EMPTY.model_copy(update={"rules": (rule,), "requests": (asked,)}))

    assert times(RULE, shown) == 1
