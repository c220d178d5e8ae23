"""What a compaction will do, and the summaries it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnmill.contract.context import JsonMessage, OpenRequest, Receipt, StoredContext, SummaryEvent
from turnmill.contract.names import Seq
from turnmill.contract.rules import Rule
from turnmill_worker.compaction.cut import Group
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.said import is_shown

__all__ = ["Plan", "Records", "SummaryRequest", "previous_text", "records_of"]


Records = tuple[tuple[Seq, JsonMessage], ...]
"""Messages with the seqs of their turns, oldest first, never truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What a summarizer is asked: a text standing for the previous summary and these messages.

    Attributes:
        previous: the summary so far, or ``""``.
        records: the messages of every turn to be covered.
        budget_tokens: most tokens the text may have.
        brief: a few sentences are wanted, for an event, instead of sections.
        template: name of the managed template that says what to write, or ``""``.
        latest_input: what the user asked last, for a template.
        memories: the memories the agent was given with it, for a template.
        reflections: what the agent noted about its own work, for a template.
        instructions: the template, with pointers to the material where it shows some, or ``""``.
        material: what they point to besides records and previous summary, by name; never orders.
        asked: open requests that stand beside it, word for word.
        rules: rules that do.
        ledger_tokens: tokens set apart for original passages beside the text. It may exceed its
            budget by as many: there are fewer of them then.
        digest: what they are chosen from, and what a text may be chosen from; None for a request
            about ``previous`` and ``records`` alone.
    """

    previous: str
    records: Records
    budget_tokens: int
    brief: bool = False
    template: str = ""
    latest_input: str = ""
    memories: str = ""
    reflections: str = ""
    instructions: str = ""
    material: tuple[tuple[str, str], ...] = ()
    asked: tuple[OpenRequest, ...] = ()
    rules: tuple[Rule, ...] = ()
    ledger_tokens: int = 0
    digest: Digest | None = None

    @property
    def whole_tokens(self) -> int:
        """Most tokens of the text and of the passages beside it together."""
        return self.budget_tokens + self.ledger_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a compaction will do.

    Attributes:
        strategy: the rung of the ladder that made it.
        snapshot: what it was planned from, with the elisions the plan makes; ``snapshot.before``
            is without them.
        covered: groups a summary or a receipt will stand for; pinned ones among them stay.
        records: of ``covered``, without the pinned ones.
        request: the summary it needs, or None.
        summary: the summary when none is requested.
        receipts: all receipts of the new context.
        events: all events of the new context; the texts of those in ``wanted`` are empty.
        wanted: for the event at each index, what it still has to be summarized from.
        managed: whether the summary is written to a template.
        replaced: tokens of the events that ``wanted`` replaces.
        forced: it need not save tokens: a count, or a caller, asked for it.
        ledger_tokens: most tokens of passages beside what a summary leaves; 0 shows none.
        digest: what its texts and what is kept after it are chosen from; None where nothing is.
    """

    strategy: str
    snapshot: Snapshot
    forced: bool = False
    covered: tuple[Group, ...] = ()
    records: Records = ()
    request: SummaryRequest | None = None
    summary: str = ""
    receipts: tuple[Receipt, ...] = ()
    events: tuple[SummaryEvent, ...] = ()
    wanted: tuple[tuple[int, SummaryRequest], ...] = ()
    managed: bool = False
    replaced: int = 0
    ledger_tokens: int = 0
    digest: Digest | None = None

    @property
    def requests(self) -> tuple[SummaryRequest, ...]:
        """All summaries it needs, the one of the whole first."""
        whole = () if self.request is None else (self.request,)
        wanted = (*whole, *(request for _, request in self.wanted))
        asked, rules = self.asked, self.rules
        return tuple(replace(each, asked=asked, rules=rules) for each in wanted)

    @property
    def cut(self) -> Seq:
        """The seq up to which turns are covered; the watermark when none are."""
        return self.covered[-1].last_seq if self.covered else self.snapshot.stored.watermark

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules that no turn beside the new context shows: it has to state them."""
        kept = {turn.seq: turn.shown for turn in self.snapshot.turns if turn.seq > self.cut}
        rules = self.snapshot.stored.rules
        return tuple(rule for rule in rules if not is_shown(rule, kept.get(rule.seq, ())))

    @property
    def asked(self) -> tuple[OpenRequest, ...]:
        """Open requests of turns that do not stay: the new context has to state them."""
        return tuple(each for each in self.snapshot.stored.requests if each.seq <= self.cut)


def records_of(covered: Sequence[Group]) -> Records:
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
