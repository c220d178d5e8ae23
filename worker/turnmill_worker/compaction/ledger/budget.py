"""The ledger beside a summary: what it holds after a compaction, its room, and what is shown of it.

Facts are stored apart from the prose and carried on as they are. A context shows the facts that the
prose does not state. ``docs/decisions/0011`` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from turnmill.contract.token_counters import CountText
from turnmill_worker.compaction.ledger.selection import Fact, beside, current, ledger, ledger_text
from turnmill_worker.compaction.plan import Plan, Records, SummaryRequest
from turnmill_worker.compaction.strategies.rolling import summary_budget

__all__ = ["certain_values", "facts_after", "reserve", "shown_beside", "up_to", "with_facts"]

_STORED: Final = 2
"""Ledger stored, in summary budgets: the next prose may drop what this one states."""

_MOST_STORED_TOKENS: Final = 8192
"""The limit for any context: about 110 KB of JSON, loaded and written by every compaction."""

_LEAST_TOKENS: Final = 32
"""A summary shorter than this says nothing: the ledger leaves it this much."""


def with_facts(plan: Plan, count: CountText) -> Plan:
    """The plan with the ledger it leads to, and with room for that in its request."""
    snapshot = plan.snapshot
    if not snapshot.policy.ledger_ratio:
        return plan
    facts, request = snapshot.facts, plan.request
    if plan.covered:
        facts = facts_after(facts, plan.records, summary_budget(snapshot, count), count)
    if request is not None and plan.ledger_tokens:
        request = reserve(request, facts, plan.ledger_tokens, count)
    return replace(plan, facts=facts, request=request)


def facts_after(
    known: Sequence[Fact], records: Records, budget_tokens: int, count: CountText
) -> tuple[Fact, ...]:
    """The ledger once these records are covered, beside summaries of ``budget_tokens``."""
    most = min(_STORED * budget_tokens, _MOST_STORED_TOKENS)
    return ledger(known, records.units, most, count)


def reserve(
    request: SummaryRequest, facts: tuple[Fact, ...], most_tokens: int, count: CountText
) -> SummaryRequest:
    """The request with up to ``most_tokens`` of its budget set apart for the facts."""
    facts = current(facts)
    most = min(most_tokens, request.budget_tokens - _LEAST_TOKENS)
    reserved = max(min(most, count(ledger_text(facts))), 0)
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
