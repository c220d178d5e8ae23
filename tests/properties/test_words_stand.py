"""What the user asked for first and laid down stands in every context that a read cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, legal_conversations, policies
from turnmill import Policy
from turnmill.contract.context import EMPTY
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.log_entry import TailTurn
from turnmill.contract.names import Seq
from turnmill.contract.rules import Mark
from turnmill.read.projection import project
from turnmill.read.view import bound
from turnmill_worker.tokens import count_request, counter_for

LAID_DOWN = ("Always answer in German.", "I'm allergic to nuts.", "We deploy on Tuesdays only.")
TASK = "Fix parse_header and keep its name."
COUNTER = counter_for("o200k_base")


@settings(deadline=None, max_examples=50)
@given(
    laid_down=st.lists(st.sampled_from(LAID_DOWN), min_size=1, max_size=3, unique=True),
    said=legal_conversations(30, least=8, pins=False),
    policy=policies((1024, 2048)),
)
def test_the_first_request_and_marked_instructions_stand_whatever_leaves(
    laid_down: list[str], said: list[GivenTurn], policy: Policy
) -> None:
    turns = [*([{"role": "user", "content": text}] for text in (TASK, *laid_down))]
    tracker = CallTracker()
    turns += [list(tracker.repair(turn.messages)) for turn in said]
    tail = [
        TailTurn(Seq(seq), turn, bound(turn), mark=Mark(1 < seq <= 1 + len(laid_down)))
        for seq, turn in enumerate(turns, 1)
    ]

    shown = project("", EMPTY, tail, policy.limits(0), bound, fixed_tokens=3)

    assert count_request(COUNTER, shown.messages) <= shown.tokens <= policy.hard_limit
    assert violations(shown.messages) == []
    texts = " ".join(str(m["content"]) for m in shown.messages if m["role"] == "user")
    assert all(text in texts for text in (TASK, *laid_down))
