"""The sliding window: the oldest turns leave without a summary, and a receipt says so.

The last rung of the ladder: it needs nothing and cannot fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import Receipt
from turnmill.contract.render import render_head
from turnmill_worker.compaction.boundaries import choose_cut
from turnmill_worker.compaction.snapshot import Count, Group, Plan, Snapshot, groups

__all__ = ["window", "window_budget"]

_RECEIPT_TOKENS = 48


def window_budget(snapshot: Snapshot, count: Count) -> int:
    """Tokens left for turns kept word for word, under the target and beside the receipt."""
    usage = snapshot.usage
    fixed = usage.system + usage.pending + usage.REPLY + count(render_head(snapshot.stored))
    return snapshot.aim - fixed - _RECEIPT_TOKENS


def window(snapshot: Snapshot, count: Count) -> Plan | None:
    """Cover the oldest turns with a receipt; a summary made earlier stays.

    None when no cut reaches the target.
    """
    found = groups(snapshot)
    budget = window_budget(snapshot, count)
    at = choose_cut(
        found,
        budget,
        pending=bool(snapshot.pending_messages),
        most_interactions=snapshot.policy.max_interactions,
    )
    if at == 0:
        return None
    covered = tuple(found[:at])
    return Plan(
        strategy="window",
        snapshot=snapshot,
        covered=covered,
        summary=snapshot.stored.summary,
        receipts=_with_receipt(snapshot.stored.receipts, covered),
        events=snapshot.stored.events,
        managed=snapshot.stored.managed,
    )


def _with_receipt(receipts: Sequence[Receipt], covered: Sequence[Group]) -> tuple[Receipt, ...]:
    """All receipts, the new one merged into its predecessor so that they do not pile up."""
    gone = [turn for group in covered if not group.pinned for turn in group.turns]
    new = Receipt(
        by="window",
        first_seq=gone[0].seq,
        last_seq=gone[-1].seq,
        turns=len(gone),
        tokens=sum(turn.tokens for turn in gone),
    )
    if not receipts:
        return (new,)
    *earlier, last = receipts
    merged = last.model_copy(
        update={
            "last_seq": new.last_seq,
            "turns": last.turns + new.turns,
            "tokens": last.tokens + new.tokens,
        }
    )
    return (*earlier, merged)
