"""Each compaction as a page explains it: what it removed, what it kept, and how well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.context import Elision, Receipt, SummaryEvent
from turnmill.contract.policy import OFFLINE
from turnmill.contract.render import changed_in, event_text, receipt_text
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import CommittedContext, Trajectory
from turnmill_cli.output import count
from turnmill_cli.visualize.messages import MessageFormatter, ShownMessage
from turnmill_cli.visualize.token_curve import ContextChange, TokenCurve
from turnmill_cli.visualize.visible_text import Text, clock, short_label, span, text

__all__ = ["CompactionCard", "QualityPart", "ShortenedMessage", "compaction_cards"]

_DOES = {
    "images": "A short note replaced each older image.",
    "elide": "A short note replaced each bulky older tool result.",
    "window": "The oldest turns were left out. A receipt says which.",
    "rolling": "A new summary replaced older turns and the last summary.",
    "managed": "A text that follows a template replaced older turns.",
    "iterations": "A summary of its own replaced each finished iteration.",
    "rollback": "The session went back to an earlier state.",
    "erase": "Words were erased, and the context is made anew of what remains.",
}
_PARTS = {
    "facts": "facts of the covered turns that can still be read",
    "relevance": "the same, for what the newest turns talk about",
    "freshness": "how many of the newest turns that the policy wants are kept word for word",
    "session": "how few compactions there were for the number of turns",
    "validity": "no tool call lost its result",
    "rules": "rules in force that are still stated",
    "current": "values that are not stated as current though newer ones replaced them",
    "readable": "text that somebody can read",
}


@dataclass(frozen=True, slots=True)
class QualityPart:
    """A part of the quality score."""

    name: str
    score: float
    about: str


@dataclass(frozen=True, slots=True)
class ShortenedMessage:
    """A message read shorter than it was pushed."""

    seq: int
    text: str
    messages: tuple[ShownMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionCard:
    """One compaction or rollback.

    Attributes:
        does: what its strategy does, in a sentence; ``""`` for one this page does not know.
        removed, kept: in words, a line each.
        summary, ledger, events, receipts: what stands for older turns since then.
        rules, requests: of the user, in force and still open, word for word.
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
    parts: tuple[QualityPart, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    pinned: tuple[int, ...]
    summary: Text | None
    ledger: Text | None
    events: tuple[Text, ...]
    new_events: int
    receipts: tuple[str, ...]
    rules: tuple[Text, ...]
    requests: tuple[Text, ...]
    shortened: tuple[ShortenedMessage, ...]
    cost: str


def compaction_cards(
    trajectory: Trajectory, curve: TokenCurve, formatter: MessageFormatter
) -> Iterator[CompactionCard]:
    """One card for each compaction and rollback, oldest first."""
    changes = {change.version: change for change in curve.changes if change.version}
    events: tuple[SummaryEvent, ...] = ()
    elided: set[tuple[int, int]] = set()
    for commit in trajectory.compactions:
        change = changes.get(commit.record.version)
        yield _compaction_card(commit, change, events, elided, formatter)
        events = commit.context.events
        elided = {(each.seq, each.index) for each in commit.context.elisions}


def _compaction_card(
    commit: CommittedContext,
    change: ContextChange | None,
    events: tuple[SummaryEvent, ...],
    elided: set[tuple[int, int]],
    formatter: MessageFormatter,
) -> CompactionCard:
    record, stored = commit.record, commit.context
    before = change.before if change else record.tokens_before
    after = change.after if change else record.tokens_after
    new = [each for each in stored.elisions if (each.seq, each.index) not in elided]
    is_rollback = record.strategy == "rollback"
    return CompactionCard(
        version=record.version,
        kind="rollback" if is_rollback else "compaction",
        strategy=short_label(record.strategy),
        does=_DOES.get(record.strategy, ""),
        when=clock(commit.at_ms),
        before=before,
        after=after,
        before_exact=change.before_exact if change else True,
        saved=None if is_rollback or not before else round(100 * (1 - after / before)),
        quality=record.quality,
        parts=tuple(
            QualityPart(short_label(name), score, _PARTS.get(name, ""))
            for name, score in record.quality_parts.items()
        ),
        removed=tuple(_returned(commit, change) if is_rollback else _removed(commit, new)),
        kept=tuple(_kept(commit)),
        pinned=tuple(pin.seq for pin in stored.pins),
        summary=text(stored.summary) if stored.summary else None,
        ledger=text(stored.ledger) if stored.ledger else None,
        events=tuple(text(event_text(event)) for event in stored.events),
        new_events=sum(event not in events for event in stored.events),
        receipts=tuple(map(_receipt, stored.receipts)),
        rules=tuple(map(_rule, stored.rules)),
        requests=tuple(text(f"Turn {each.seq}: {each.text}") for each in stored.requests),
        shortened=() if is_rollback else tuple(_shortened(each, formatter) for each in new),
        cost=_cost(commit),
    )


def _removed(commit: CommittedContext, new: list[Elision]) -> Iterator[str]:
    record = commit.record
    if record.watermark > record.from_watermark:
        covered = span(record.from_watermark + 1, record.watermark)
        yield f"{covered}: no longer word for word ({count(record.turns, 'turn')})"
    if new:
        saved = sum(each.tokens_before - each.tokens_after for each in new)
        yield f"{count(len(new), 'message')} of later turns shortened, by {count(saved, 'token')}"


def _returned(commit: CommittedContext, change: ContextChange | None) -> Iterator[str]:
    last = commit.record.last_seq
    if change and change.seq > last:
        yield f"{span(last + 1, change.seq)}: set aside, kept in the archive"
    if commit.record.from_watermark > commit.context.watermark:
        back = span(commit.context.watermark + 1, min(commit.record.from_watermark, last))
        yield f"{back}: word for word again, as before later compactions"


def _kept(commit: CommittedContext) -> Iterator[str]:
    record, stored = commit.record, commit.context
    if record.last_seq > stored.watermark:
        tail = span(stored.watermark + 1, record.last_seq)
        shortened = len({each.seq for each in stored.elisions})
        less = f", {count(shortened, 'turn')} of them shortened inside" if shortened else ""
        yield f"{tail}: word for word{less}"
    if stored.summary:
        yield f"turns up to {stored.watermark}: as a summary"
    if stored.ledger:
        yield "facts of those turns the summary does not state: word for word"
    if stored.rules:
        yield f"{count(len(stored.rules), 'rule')} of the user: word for word"
    if stored.requests:
        yield f"{count(len(stored.requests), 'request')} of the user: word for word"
    if stored.events:
        yield f"older iterations: as {count(len(stored.events), 'summary event')}"


def _rule(rule: Rule) -> Text:
    return text(f"{rule.id}: {rule.text}{changed_in(rule)}")


def _receipt(receipt: Receipt) -> str:
    return short_label(f"{receipt_text(receipt)} (by {receipt.by})")


def _shortened(elision: Elision, formatter: MessageFormatter) -> ShortenedMessage:
    told = f"{elision.tokens_before:,} → {elision.tokens_after:,} tokens, read now as:"
    messages = formatter.shown([elision.message], f"turn {elision.seq}, shortened")
    return ShortenedMessage(elision.seq, told, messages)


def _cost(commit: CommittedContext) -> str:
    record = commit.record
    if not record.model:
        return "no model was asked"
    if record.model == OFFLINE:
        return f"written by {OFFLINE}, offline, without a model{_failed(commit)}"
    billed = f"{record.prompt_tokens:,} + {record.completion_tokens:,} tokens"
    dollars = "price unknown" if record.cost_usd is None else f"${record.cost_usd:.4f}"
    return f"written by {short_label(record.model)}, {billed}, {dollars}{_failed(commit)}"


def _failed(commit: CommittedContext) -> str:
    """Why those tried before did not write it."""
    failed = commit.record.failed
    return f"; failed before: {', '.join(map(short_label, failed))}" if failed else ""
