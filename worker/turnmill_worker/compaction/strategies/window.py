"""The sliding window: the oldest turns leave without a summary, and a receipt says so.

The last rung of the ladder: it needs nothing and cannot fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import Receipt
from turnmill.contract.estimate import Counter
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Group, Plan, choose_cut, groups, records_of
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.registry import Covers, register
from turnmill_worker.compaction.strategies.rolling import ledger_budget, summary_budget

_RECEIPT_TOKENS = 48


def window_budget(snapshot: Snapshot, counter: Counter) -> int:
    """Tokens left for turns kept word for word, under the target and beside the receipt."""
    usage = snapshot.usage
    ledger = "…" if snapshot.policy.ledger_ratio else ""
    frame = snapshot.stored.model_copy(update={"ledger": ledger})
    fixed = usage.system + usage.pending + usage.REPLY + counter.count_messages(render_head(frame))
    return snapshot.aim - fixed - _RECEIPT_TOKENS


def window(snapshot: Snapshot, counter: Counter) -> Plan | None:
    """Cover the oldest turns with a receipt and some of their facts; an earlier summary stays.

    If turns that must stay leave little room, it keeps as many facts as fit. None when no cut
    reaches the target.
    """
    found = groups(snapshot)
    budget = window_budget(snapshot, counter)
    ledger_tokens = ledger_budget(snapshot, summary_budget(snapshot, counter.count))
    cuts = (
        choose_cut(
            found,
            budget - apart,
            pending=bool(snapshot.pending_messages),
            most_interactions=snapshot.policy.max_interactions,
        )
        for apart in dict.fromkeys((ledger_tokens, 0))
    )
    at = next((at for at in cuts if at), 0)
    if at == 0:
        return None
    covered = tuple(found[:at])
    return Plan(
        strategy="window",
        snapshot=snapshot,
        covered=covered,
        records=records_of(covered),
        summary=snapshot.stored.summary,
        receipts=_with_receipt(snapshot.stored.receipts, covered),
        events=snapshot.stored.events,
        managed=snapshot.stored.managed,
        ledger_tokens=ledger_tokens,
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


register("window", Covers(window, budget=window_budget))
