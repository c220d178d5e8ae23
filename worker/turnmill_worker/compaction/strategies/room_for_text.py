"""The room for a text still to be written, whichever strategy asks for it."""

from __future__ import annotations

from turnmill.contract.context import PinnedTurn, StoredContext
from turnmill.contract.estimate import Counter
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Plan

__all__ = ["room_beside"]

_SLACK_TOKENS = 8
"""A text may tokenize a little differently beside its frame than alone."""


def room_beside(plan: Plan, frame: StoredContext, counter: Counter) -> int:
    """Tokens left under the plan's goal beside the turns that stay, all pins, and this frame."""
    snapshot = plan.snapshot
    pins = [*snapshot.stored.pins]
    for group in plan.covered:
        if group.pinned:
            pins += [PinnedTurn(seq=turn.seq, messages=turn.shown) for turn in group.turns]
    head = render_head(frame.model_copy(update={"pins": tuple(pins)}))
    kept = sum(turn.tokens for turn in snapshot.turns if turn.seq > plan.cut)
    usage = snapshot.usage
    fixed = usage.system + usage.pending + usage.REPLY + kept + counter.count_messages(head)
    return snapshot.aim - fixed - _SLACK_TOKENS
