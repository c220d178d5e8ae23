"""The offline summarizer: from turns and a budget to a text, without model, key or network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from turnmill.contract.policy import OFFLINE
from turnmill.contract.token_counters import Counter, CountText
from turnmill_worker.compaction.ledger.budget import free_tokens
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.ports.values import Summary
from turnmill_worker.old_reading.messages import read_units

__all__ = ["ExtractiveSummarizer", "extract"]

_WORTH_WRITING_ANEW: Final = 4
"""Tokens: the shortest sentence with what opens its line."""


class ExtractiveSummarizer:
    """The ``Summarizer`` port over the candidates: keeps the sentences and facts worth most."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The most telling parts of the pool and the records, within the budget."""
        candidates = request.candidates or Candidates(
            request.records.units, previous=request.previous
        )
        written = partial(
            candidates.text,
            request.budget_tokens,
            counter.count,
            without_said_in=frozenset(each.seq for each in request.asked),
            stated=[(rule.seq, rule.text) for rule in request.rules],
        )
        text = written()
        free = free_tokens(text, request, counter.count)
        if free < _WORTH_WRITING_ANEW:
            return Summary(text=text, model=OFFLINE)
        longer = written(more_tokens=free)
        over = counter.count(longer) - request.budget_tokens
        # What the room of one fact was given to may leave out another.
        fits = over <= free_tokens(longer, request, counter.count)
        return Summary(text=longer if fits else text, model=OFFLINE)


def extract(
    records: Sequence[tuple[int, Mapping[str, Any]]],
    *,
    previous: str = "",
    budget_tokens: int,
    count: CountText,
) -> str:
    """What of `previous` and `records` is most likely to be needed, in at most `budget_tokens`.

    `records` are `(seq, OpenAI chat message)` in conversation order; `previous` is a summary this
    function made of the turns before them. Never raises on any content. Pure and deterministic.
    """
    return Candidates(read_units(records), previous=previous).text(budget_tokens, count)
