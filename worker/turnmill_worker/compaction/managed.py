"""The managed view: a summary written to a template, before the newest runs.

A run is an interaction: a user's word and what follows it. The newest is the one the agent is at;
its user message is the latest input. Stateless as specified: every view is made from the newest
``recent_runs`` runs, not from the view before; what falls out of them is named by a receipt.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.context import JsonMessage, Receipt
from turnmill.contract.names import Seq
from turnmill_worker.compaction.rolling import summary_budget
from turnmill_worker.compaction.snapshot import (
    Count,
    Group,
    LoggedTurn,
    Plan,
    Snapshot,
    SummaryRequest,
    groups,
)
from turnmill_worker.compaction.tally import interactions

__all__ = ["managed"]


def managed(snapshot: Snapshot, count: Count) -> Plan | None:  # noqa: ARG001 - a strategy's shape
    """Cover every complete run but the newest ``passthrough_runs`` with a view of the recent ones.

    None when the policy feeds no runs to it, or none is complete beside those passed through.
    """
    policy = snapshot.policy
    if not policy.recent_runs:
        return None
    found = groups(snapshot)
    at = _cut(found, (policy.passthrough_runs or 0) + 1)
    if at == 0:
        return None
    covered = tuple(found[:at])
    *complete, latest = _runs([*snapshot.earlier, *snapshot.turns])
    seen = [turn for run in complete[-policy.recent_runs :] for turn in run]
    first = seen[0].seq if seen else snapshot.counted_seq + 1
    return Plan(
        strategy="managed",
        snapshot=snapshot,
        covered=covered,
        receipts=_receipts(snapshot, covered, first),
        managed=True,
        request=SummaryRequest(
            previous="",
            records=tuple((turn.seq, message) for turn in seen for message in turn.original),
            budget_tokens=summary_budget(snapshot),
            template=policy.template,
            latest_input=_asked(latest),
        ),
    )


def _cut(found: Sequence[Group], runs: int) -> int:
    """How many of the oldest groups to cover so that the newest ``runs`` interactions stay."""
    kept = 0
    for at in range(len(found) - 1, 0, -1):
        kept += found[at].interactions
        if kept >= runs:
            return at if all(group.closed for group in found[:at]) else 0
    return 0


def _runs(turns: Sequence[LoggedTurn]) -> list[list[LoggedTurn]]:
    """The turns run by run; at least one run, perhaps empty."""
    runs: list[list[LoggedTurn]] = [[]]
    for turn in turns:
        if interactions(turn.original) and runs[-1]:
            runs.append([])
        runs[-1].append(turn)
    return runs


def _receipts(snapshot: Snapshot, covered: Sequence[Group], first: int) -> tuple[Receipt, ...]:
    """One receipt for all turns the view was not made from, those named earlier included."""
    gone: list[LoggedTurn] = [turn for turn in snapshot.earlier if turn.seq < first]
    gone += [t for group in covered if not group.pinned for t in group.turns if t.seq < first]
    named = snapshot.stored.receipts
    through = max((receipt.last_seq for receipt in named), default=0)
    fresh = [turn for turn in gone if turn.seq > through]
    if not fresh:
        return named
    return (
        Receipt(
            by="managed",
            first_seq=min([Seq(fresh[0].seq), *(Seq(receipt.first_seq) for receipt in named)]),
            last_seq=fresh[-1].seq,
            turns=len(fresh) + sum(receipt.turns for receipt in named),
            tokens=sum(t.tokens for t in fresh) + sum(receipt.tokens for receipt in named),
        ),
    )


def _asked(run: Sequence[LoggedTurn]) -> str:
    """The text of the first user message."""
    messages: list[JsonMessage] = [message for turn in run for message in turn.original]
    for message in messages:
        if message["role"] == "user" and not message.get("name"):
            content = message.get("content")
            if isinstance(content, str):
                return content
            return " ".join(p["text"] for p in content or () if isinstance(p.get("text"), str))
    return ""
