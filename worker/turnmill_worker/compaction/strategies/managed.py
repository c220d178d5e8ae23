"""The managed view: a summary written to a template, before the newest runs.

A run is an interaction: a user's word and what follows it. The newest is the one the agent is in;
its user message is the latest input. Stateless as specified: every view is made from the newest
``recent_runs`` runs, not from the view before; what falls out of them is named by a receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from turnmill.contract.context import JsonMessage, Receipt, StoredContext
from turnmill.contract.estimate import Counter
from turnmill.contract.marks import author, is_memories
from turnmill.contract.names import Seq
from turnmill_worker.compaction.plan import Group, Plan, SummaryRequest, groups, records_of
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, interactions
from turnmill_worker.compaction.strategies.registry import Covers, register
from turnmill_worker.compaction.strategies.rolling import room_beside, summary_budget

_LEAST_TOKENS = 32
"""A view shorter than this says nothing."""


def managed(snapshot: Snapshot, counter: Counter) -> Plan | None:
    """Cover every complete run but the newest ``passthrough_runs`` with a view of the recent ones.

    The view is shorter if those runs leave less room for it under the soft limit. None when they
    leave none, when the policy feeds no runs to it, or when no other run is complete.
    """
    policy = snapshot.policy
    if not policy.recent_runs:
        return None
    found = groups(snapshot)
    at = _cut(found, (policy.passthrough_runs or 0) + 1)
    if at == 0:
        return None
    covered = tuple(found[:at])
    *complete, latest = runs([*snapshot.earlier, *snapshot.turns])
    seen = [turn for run in complete[-policy.recent_runs :] for turn in run]
    first = seen[0].seq if seen else snapshot.counted_seq + 1
    plan = Plan(
        strategy="managed",
        # The policy says which runs stay: no cut of its own could reach the target.
        snapshot=replace(snapshot, goal=max(snapshot.aim, snapshot.limits.soft)),
        covered=covered,
        records=records_of(covered),
        receipts=_receipts(snapshot, covered, first),
        managed=True,
    )
    said = snapshot.stored.model_dump(include={"rules", "requests"})
    frame = StoredContext(summary="…", managed=True, receipts=plan.receipts, **said)
    budget = min(summary_budget(snapshot, counter.count), room_beside(plan, frame, counter))
    if budget < _LEAST_TOKENS:
        return None
    request = SummaryRequest(
        previous="",
        records=tuple((turn.seq, message) for turn in seen for message in turn.original),
        budget_tokens=budget,
        template=policy.template,
    )
    return replace(plan, request=for_template(request, told=seen, latest=latest))


def for_template(
    request: SummaryRequest, *, told: Sequence[LoggedTurn], latest: Sequence[LoggedTurn]
) -> SummaryRequest:
    """The request with what a template may show besides the records.

    ``told`` are the turns of the records, ``latest`` the turns of the run the agent is in.
    """
    reflections = (turn.reflection for turn in (*told, *latest) if turn.reflection)
    return replace(
        request,
        latest_input=_said(latest, _is_asking),
        memories=_said(latest, is_memories),
        reflections="\n".join(dict.fromkeys(reflections)),
    )


def _cut(found: Sequence[Group], newest: int) -> int:
    """How many of the oldest groups to cover so that the ``newest`` interactions stay."""
    kept = 0
    for at in range(len(found) - 1, 0, -1):
        kept += found[at].interactions
        if kept >= newest:
            return at if all(group.closed for group in found[:at]) else 0
    return 0


def runs(turns: Sequence[LoggedTurn]) -> list[list[LoggedTurn]]:
    """The turns run by run; at least one run, perhaps empty."""
    runs: list[list[LoggedTurn]] = [[]]
    for turn in turns:
        if interactions(turn.original) and runs[-1]:
            runs.append([])
        runs[-1].append(turn)
    return runs


def _receipts(snapshot: Snapshot, covered: Sequence[Group], first: int) -> tuple[Receipt, ...]:
    """One receipt for all turns the view was not made from, those named earlier included."""
    pinned = {pin.seq for pin in snapshot.stored.pins}
    gone = [t for t in snapshot.earlier if t.seq < first and t.seq not in pinned]
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


def _is_asking(message: JsonMessage) -> bool:
    return author(message) == "user" and not is_memories(message)


def _said(run: Sequence[LoggedTurn], wanted: Callable[[JsonMessage], bool]) -> str:
    """The text of the run's first message of a kind."""
    for turn in run:
        for message in turn.original:
            if wanted(message):
                content = message.get("content")
                if isinstance(content, str):
                    return content
                return " ".join(p["text"] for p in content or () if isinstance(p.get("text"), str))
    return ""


register("managed", Covers(managed, "managed"))
