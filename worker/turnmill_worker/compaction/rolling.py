"""The rolling summary: one text stands for all turns up to the cut, and grows no longer."""

from __future__ import annotations

from turnmill.contract.render import render_head
from turnmill_worker.compaction.boundaries import choose_cut
from turnmill_worker.compaction.snapshot import Count, Plan, Snapshot, SummaryRequest, groups

__all__ = ["rolling", "rolling_budget", "summary_budget"]

_SLACK_TOKENS = 8
"""A text may tokenize a little differently beside its frame than alone."""


def summary_budget(snapshot: Snapshot) -> int:
    """Most tokens a summary may have under the session's policy."""
    return int(snapshot.limits.room * snapshot.policy.summary_ratio)


def rolling_budget(snapshot: Snapshot, count: Count) -> int:
    """Tokens left for turns kept word for word, under the target and beside the summary."""
    usage = snapshot.usage
    frame = snapshot.stored.model_copy(update={"summary": "…", "watermark": snapshot.counted_seq})
    fixed = usage.system + usage.pending + usage.REPLY + count(render_head(frame)) + _SLACK_TOKENS
    return snapshot.limits.target - fixed - summary_budget(snapshot)


def rolling(snapshot: Snapshot, count: Count) -> Plan | None:
    """Cover the oldest turns with a summary that also replaces the previous one.

    The tail keeps as many turns as the target leaves room for. None when no cut reaches the
    target.
    """
    found = groups(snapshot)
    budget = rolling_budget(snapshot, count)
    at = choose_cut(found, budget, pending=bool(snapshot.pending_messages))
    if at == 0:
        return None
    covered = tuple(found[:at])
    return Plan(
        strategy="rolling",
        snapshot=snapshot,
        covered=covered,
        receipts=snapshot.stored.receipts,
        request=SummaryRequest(
            previous=snapshot.stored.summary,
            records=tuple(
                (turn.seq, message)
                for group in covered
                if not group.pinned
                for turn in group.turns
                for message in turn.original
            ),
            budget_tokens=summary_budget(snapshot),
        ),
    )
