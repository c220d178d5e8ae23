"""Each compaction as a page explains it: what it removed, what it kept, and how well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.context import Elision, Receipt, SummaryEvent
from turnmill.contract.policy import OFFLINE
from turnmill.contract.render import event_text, receipt_text
from turnmill.contract.trajectory import CommittedContext, Trajectory
from turnmill_cli.visualize.messages import Shown, Speaker
from turnmill_cli.visualize.safe_text import Text, brief, clock, number, span, text
from turnmill_cli.visualize.sawtooth import Drop, Sawtooth

__all__ = ["Card", "Part", "Shortened", "cards"]

_DOES = {
    "images": "Older images gave way to a short note each.",
    "elide": "Bulky older tool results gave way to a short note each.",
    "window": "The oldest turns were left out; a receipt says which.",
    "rolling": "Older turns gave way to a summary, written anew from the last one and these turns.",
    "managed": "Older turns were written up after a template.",
    "iterations": "Each finished iteration gave way to a summary of its own.",
    "rollback": "The session went back to an earlier state.",
}
_PARTS = {
    "facts": "facts of the covered turns that can still be read",
    "relevance": "the same, for what the newest turns talk about",
    "freshness": "newest turns kept word for word, of those the policy wants",
    "session": "few compactions for its number of turns",
    "validity": "no tool call lost its result",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the quality score."""

    name: str
    score: float
    about: str


@dataclass(frozen=True, slots=True)
class Shortened:
    """A message read shorter than it was pushed."""

    seq: int
    text: str
    messages: tuple[Shown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One compaction or rollback.

    Attributes:
        does: what its strategy does, in a sentence; ``""`` for one this page does not know.
        removed, kept: in words, a line each.
        summary, ledger, events, receipts: what stands for older turns since then.
        new_events: how many of the events were not there before.
    """

    version: int
    kind: str
    strategy: str
    does: str
    when: str
    before: int
    after: int
    before_exact: bool
    saved: int | None
    quality: float | None
    parts: tuple[Part, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    pinned: tuple[int, ...]
    summary: Text | None
    ledger: Text | None
    events: tuple[Text, ...]
    new_events: int
    receipts: tuple[str, ...]
    shortened: tuple[Shortened, ...]
    cost: str


def cards(trajectory: Trajectory, saw: Sawtooth, speaker: Speaker) -> Iterator[Card]:
    """One card for each compaction and rollback, oldest first."""
    drops = {drop.version: drop for drop in saw.drops if drop.version}
    events: tuple[SummaryEvent, ...] = ()
    elided: set[tuple[int, int]] = set()
    for commit in trajectory.compactions:
        drop = drops.get(commit.record.version)
        yield _card(commit, drop, events, elided, speaker)
        events = commit.context.events
        elided = {(each.seq, each.index) for each in commit.context.elisions}


def _card(
    commit: CommittedContext,
    drop: Drop | None,
    events: tuple[SummaryEvent, ...],
    elided: set[tuple[int, int]],
    speaker: Speaker,
) -> Card:
    record, stored = commit.record, commit.context
    before = drop.before if drop else record.tokens_before
    after = drop.after if drop else record.tokens_after
    new = [each for each in stored.elisions if (each.seq, each.index) not in elided]
    is_rollback = record.strategy == "rollback"
    return Card(
        version=record.version,
        kind="rollback" if is_rollback else "compaction",
        strategy=brief(record.strategy),
        does=_DOES.get(record.strategy, ""),
        when=clock(commit.at_ms),
        before=before,
        after=after,
        before_exact=drop.before_exact if drop else True,
        saved=None if is_rollback or not before else round(100 * (1 - after / before)),
        quality=record.quality,
        parts=tuple(
            Part(brief(name), score, _PARTS.get(name, ""))
            for name, score in record.quality_parts.items()
        ),
        removed=tuple(_returned(commit, drop) if is_rollback else _removed(commit, new)),
        kept=tuple(_kept(commit)),
        pinned=tuple(pin.seq for pin in stored.pins),
        summary=text(stored.summary) if stored.summary else None,
        ledger=text(stored.ledger) if stored.ledger else None,
        events=tuple(text(event_text(event)) for event in stored.events),
        new_events=sum(event not in events for event in stored.events),
        receipts=tuple(map(_receipt, stored.receipts)),
        shortened=() if is_rollback else tuple(_shortened(each, speaker) for each in new),
        cost=_cost(commit),
    )


def _removed(commit: CommittedContext, new: list[Elision]) -> Iterator[str]:
    record = commit.record
    if record.watermark > record.from_watermark:
        covered = span(record.from_watermark + 1, record.watermark)
        yield f"{covered}: no longer word for word ({number(record.turns, 'turn')})"
    if new:
        saved = sum(each.tokens_before - each.tokens_after for each in new)
        yield f"{number(len(new), 'message')} of later turns shortened, by {number(saved, 'token')}"


def _returned(commit: CommittedContext, drop: Drop | None) -> Iterator[str]:
    last = commit.record.last_seq
    if drop and drop.seq > last:
        yield f"{span(last + 1, drop.seq)}: set aside, kept in the archive"
    if commit.record.from_watermark > commit.context.watermark:
        back = span(commit.context.watermark + 1, min(commit.record.from_watermark, last))
        yield f"{back}: word for word again, as before later compactions"


def _kept(commit: CommittedContext) -> Iterator[str]:
    record, stored = commit.record, commit.context
    if record.last_seq > stored.watermark:
        tail = span(stored.watermark + 1, record.last_seq)
        shortened = len({each.seq for each in stored.elisions})
        less = f", {number(shortened, 'turn')} of them shortened inside" if shortened else ""
        yield f"{tail}: word for word{less}"
    if stored.summary:
        yield f"turns up to {stored.watermark}: as a summary"
    if stored.ledger:
        yield "facts of those turns the summary does not state: word for word"
    if stored.events:
        yield f"older iterations: as {number(len(stored.events), 'summary event')}"


def _receipt(receipt: Receipt) -> str:
    return brief(f"{receipt_text(receipt)} (by {receipt.by})")


def _shortened(elision: Elision, speaker: Speaker) -> Shortened:
    told = f"{elision.tokens_before:,} → {elision.tokens_after:,} tokens, read now as:"
    messages = speaker.shown([elision.message], f"turn {elision.seq}, shortened")
    return Shortened(elision.seq, told, messages)


def _cost(commit: CommittedContext) -> str:
    record = commit.record
    if not record.model:
        return "no model was asked"
    if record.model == OFFLINE:
        return f"written by {OFFLINE}, offline, without a model{_failed(commit)}"
    billed = f"{record.prompt_tokens:,} + {record.completion_tokens:,} tokens"
    dollars = "price unknown" if record.cost_usd is None else f"${record.cost_usd:.4f}"
    return f"written by {brief(record.model)}, {billed}, {dollars}{_failed(commit)}"


def _failed(commit: CommittedContext) -> str:
    """Why those tried before did not write it."""
    failed = commit.record.failed
    return f"; failed before: {', '.join(map(brief, failed))}" if failed else ""
