"""What a compaction will do, and the summaries it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnmill.contract.context import (
    JsonMessage,
    Receipt,
    StoredContext,
    SummaryEvent,
)
from turnmill.contract.names import Seq
from turnmill_worker.compaction.ledger.selection import Fact
from turnmill_worker.compaction.snapshot import Group, Snapshot
from turnmill_worker.reading.units import Units

__all__ = ["Plan", "SummaryRequest", "previous_text", "records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What a summarizer is asked: a text standing for the previous summary and these messages.

    Attributes:
        previous: the summary so far, or ``""``.
        records: (seq, message) of every turn to be covered, oldest first, never truncated.
        budget_tokens: most tokens the text may have.
        brief: a few sentences are wanted, for an event, instead of sections.
        template: name of the managed template that says what to write, or ``""``.
        latest_input: what the user asked last, for a template.
        memories: what the agent was reminded of with it, for a template.
        reflections: what the agent noted about its own work, for a template.
        instructions: the template, with pointers to the material where it shows some, or ``""``.
        material: what it points to beside records and previous summary, by name; nobody's orders.
        facts: kept word for word whatever the text says; those it does not state are shown beside
            it.
        ledger_tokens: set apart for these. The text may have more than its budget by as many of
            them as the facts it does not state leave.
        read: the records without memories, as units; None while nobody has read them.
        ranked: positions of the facts, those worth most first; ``()`` while nobody has ranked them.
    """

    previous: str
    records: tuple[tuple[Seq, JsonMessage], ...]
    budget_tokens: int
    brief: bool = False
    template: str = ""
    latest_input: str = ""
    memories: str = ""
    reflections: str = ""
    instructions: str = ""
    material: tuple[tuple[str, str], ...] = ()
    facts: tuple[Fact, ...] = ()
    ledger_tokens: int = 0
    read: Units | None = field(default=None, compare=False, repr=False)
    ranked: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def whole_tokens(self) -> int:
        """Most tokens of the text and the facts beside it."""
        return self.budget_tokens + self.ledger_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a compaction will do.

    Attributes:
        strategy: the rung of the ladder that made it.
        snapshot: what it was planned from, with the elisions the plan makes.
        covered: groups a summary or a receipt will stand for; pinned ones among them stay.
        request: the summary it needs, or None.
        summary: the summary when none is requested.
        receipts: all receipts of the new context.
        events: all events of the new context; the texts of those in ``wanted`` are empty.
        wanted: what each event of its index still has to be summarized from.
        managed: whether the summary is written to a template.
        replaced: tokens of the events that ``wanted`` takes the place of.
        forced: it need not save tokens: a count, or somebody, asked for it.
        ledger_tokens: most tokens of the facts shown, beside what a summary leaves; 0 shows none.
        facts: the ledger after it.
        read: the records of ``covered`` without memories, as units; None while nobody has read
            them.
    """

    strategy: str
    snapshot: Snapshot
    forced: bool = False
    covered: tuple[Group, ...] = ()
    request: SummaryRequest | None = None
    summary: str = ""
    receipts: tuple[Receipt, ...] = ()
    events: tuple[SummaryEvent, ...] = ()
    wanted: tuple[tuple[int, SummaryRequest], ...] = ()
    managed: bool = False
    replaced: int = 0
    ledger_tokens: int = 0
    facts: tuple[Fact, ...] = ()
    read: Units | None = field(default=None, compare=False, repr=False)

    @property
    def requests(self) -> tuple[SummaryRequest, ...]:
        """All summaries it needs, that of the whole first."""
        whole = () if self.request is None else (self.request,)
        return (*whole, *(request for _, request in self.wanted))

    @property
    def cut(self) -> Seq:
        """Turns up to it are covered; the watermark when none are."""
        return self.covered[-1].last_seq if self.covered else self.snapshot.stored.watermark


def records(covered: Sequence[Group]) -> tuple[tuple[Seq, JsonMessage], ...]:
    """What a summary of these groups is made from: all messages but those of pinned groups."""
    return tuple(
        (turn.seq, message)
        for group in covered
        if not group.pinned
        for turn in group.turns
        for message in turn.original
    )


def previous_text(stored: StoredContext) -> str:
    """All that stands for covered turns, as one text: what a new summary must take over."""
    texts = [stored.summary, *(event.text for event in stored.events)]
    return "\n".join(text for text in texts if text)
