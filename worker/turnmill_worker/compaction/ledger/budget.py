"""The ledger beside a summary: what it holds after a compaction, its room, and what is shown of it.

Facts are stored apart from the prose and carried on as they are. A context shows the facts that the
prose does not state. ``docs/decisions/0011`` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.ledger.selection import (
    SYSTEM,
    Fact,
    Unstated,
    beside,
    current,
    ledger,
    ledger_text,
)
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.compaction.strategies.rolling import summary_budget
from turnmill_worker.old_reading.updates import Told

__all__ = [
    "certain_values",
    "facts_after",
    "free_tokens",
    "reserve",
    "shown_beside",
    "up_to",
    "with_facts",
]

_STORED: Final = 2
"""Ledger stored, in summary budgets: the next prose may drop what this one states."""

_MOST_STORED_TOKENS: Final = 8192
"""The limit for any context: about 110 KB of JSON, loaded and written by every compaction."""

_LEAST_LEDGER_TOKENS: Final = 32
"""Room for fewer facts than there are is set apart only if it is as much."""

_LEAST_TOKENS: Final = 32
"""A summary shorter than this says nothing: the ledger leaves it this much."""


def with_facts(plan: Plan, count: CountText) -> Plan:
    """The plan with the ledger it leads to, and with room for that in its request."""
    snapshot = plan.snapshot
    if not snapshot.policy.ledger_ratio:
        return plan
    facts, request = snapshot.facts, plan.request
    if plan.covered:
        facts = facts_after(facts, _told(plan), summary_budget(snapshot, count), count)
    if request is not None and plan.ledger_tokens:
        request = reserve(request, facts, plan.ledger_tokens, count)
    return replace(plan, facts=facts, request=request)


def _told(plan: Plan) -> Told:
    """What the plan covers, behind the pool where it has one."""
    return plan.candidates.told if plan.candidates else Told(plan.records.units)


def facts_after(
    known: Sequence[Fact], told: Told, budget_tokens: int, count: CountText
) -> tuple[Fact, ...]:
    """The ledger once the last part of what is told is covered, beside such summaries."""
    most = min(_STORED * budget_tokens, _MOST_STORED_TOKENS)
    return ledger(known, told, most, count)


def reserve(
    request: SummaryRequest, facts: tuple[Fact, ...], most_tokens: int, count: CountText
) -> SummaryRequest:
    """The request with up to ``most_tokens`` of its budget set apart for the facts.

    None where hardly one of them would fit: sentences say more then. And none for what only a
    system message says, like the date a session began.
    """
    facts = current(facts)
    most = min(most_tokens, request.budget_tokens - _LEAST_TOKENS)
    needed = count(ledger_text(fact for fact in facts if fact.by != SYSTEM))
    reserved = needed if needed <= most else most * (most >= _LEAST_LEDGER_TOKENS)
    return replace(
        request,
        budget_tokens=request.budget_tokens - reserved,
        facts=facts,
        ledger_tokens=reserved,
    )


def certain_values(request: SummaryRequest, count: CountText) -> tuple[str, ...]:
    """The values that a context is certain to show if the text does not state them."""
    shown = beside("", request.facts, request.ledger_tokens, count)
    return tuple(fact.text for fact in shown)


def free_tokens(text: str, request: SummaryRequest, count: CountText) -> int:
    """How many tokens set apart for facts this text leaves free: it states some of them itself.

    None where there are more facts than were given room.
    """
    beside_it = [*(each.text for each in request.asked), *(rule.text for rule in request.rules)]
    left = Unstated("\n".join([text, *beside_it]), request.facts, count)
    return max(request.ledger_tokens - left.tokens(request.ledger_tokens), 0)


def shown_beside(text: str, facts: Sequence[Fact], most_tokens: int, count: CountText) -> str:
    """The facts this text does not state, as a context shows them."""
    return ledger_text(beside(text, facts, most_tokens, count))


def up_to(facts: Sequence[Fact], watermark: int) -> tuple[Fact, ...]:
    """The facts of turns up to the watermark: what came after it was rolled back."""
    return tuple(
        fact
        if max(fact.last_seq, fact.until) <= watermark
        else replace(
            fact,
            last_seq=min(fact.last_seq, watermark),
            until=fact.until if fact.until <= watermark else 0,
        )
        for fact in facts
        if fact.seq <= watermark
    )
