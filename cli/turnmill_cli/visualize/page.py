"""A session as one HTML page: its parts as values, laid into a template that escapes them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Generic, TypeVar

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from turnmill.contract.codec import encode_json
from turnmill.contract.context import Elision, JsonMessage, Receipt, SummaryEvent
from turnmill.contract.policy import OFFLINE
from turnmill.contract.render import (
    changed_in,
    event_text,
    receipt_text,
    render_head,
    system_message,
)
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn
from turnmill_cli.output import count
from turnmill_cli.visualize.curve import (
    ContextChange,
    Point,
    TokenCurve,
    TurnOutcomes,
    chart,
    is_dense,
    title,
    token_curve,
    turn_outcomes,
    weights,
)
from turnmill_cli.visualize.messages import (
    MessageFormatter,
    PageImages,
    ShownMessage,
    Text,
    as_json,
    clock,
    short_label,
    span,
    text,
)

# --- long lists: the ends open, the middle complete but folded away -------------------------------

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoldedGroup(Generic[T]):
    """Neighbouring entries, shown together or folded together."""

    items: tuple[T, ...]
    folded: bool


def folded_groups(
    items: Sequence[T], *, first: int = 12, last: int = 40, group: int = 100
) -> tuple[FoldedGroup[T], ...]:
    """The entries in order: ``first`` and ``last`` ones open, others folded by the ``group``.

    All are open when there are hardly more than would be anyway.
    """
    middle = items[first:-last]
    if len(middle) <= last:
        return (FoldedGroup(tuple(items), folded=False),) if items else ()
    folded = [
        FoldedGroup(tuple(middle[start : start + group]), folded=True)
        for start in range(0, len(middle), group)
    ]
    return (
        FoldedGroup(tuple(items[:first]), folded=False),
        *folded,
        FoldedGroup(tuple(items[-last:]), folded=False),
    )


# --- a sentence and a few numbers -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One number of the header, with what it means."""

    name: str
    value: str
    about: str
    kind: str = ""


def sentences(trajectory: Trajectory, curve: TokenCurve, outcomes: TurnOutcomes) -> Iterator[str]:
    """What a newcomer should know first."""
    pushed = sum(weight.tokens for weight in weights(trajectory).values())
    about = "" if _all_counted(trajectory) else "about "
    images = sum(map(_images, trajectory.turns))
    shown = f" with {count(images, 'image')}" if images else ""
    turns = count(len(trajectory.turns), "turn")
    yield f"The agent pushed {turns}{shown}: {about}{pushed:,} tokens."
    if not trajectory.turns:
        return
    made = sum(change.kind == "compaction" for change in curve.changes)
    yield (
        f"turnmill compacted the context {'once' if made == 1 else count(made, 'time')}."
        if made
        else "Nothing has been compacted yet."
    )
    now, least = curve.now, "" if curve.now.exact else "about "
    is_over = 0 < trajectory.hard_limit < now.tokens
    opening = "The context now has" if is_over else "The model now reads"
    yield f"{opening} {least}{now.tokens:,} tokens: {_parts(trajectory, outcomes)}."
    if is_over:
        yield "That is over the hard limit, so each read is cut to fit until a compaction is done."


def _parts(trajectory: Trajectory, outcomes: TurnOutcomes) -> str:
    """What the context is made of, in words."""
    kept = [turn for turn in trajectory.turns if turn.state == "kept"]
    tail = sum(turn.seq > outcomes.watermark for turn in kept)
    reads = [count(tail, "turn") + (" word for word" if not outcomes.shortened else "")]
    stored = outcomes.stored
    if stored.summary or stored.events:
        reads.insert(0, f"a summary of {span(outcomes.first, stored.watermark)}")
    elif stored.receipts:
        reads.insert(0, f"a receipt for {span(outcomes.first, stored.watermark)} (left out)")
    pins = sum(turn.pinned and turn.seq <= outcomes.watermark for turn in kept)
    if pins:
        reads.insert(-1, count(pins, "pinned turn"))
    return f"{', '.join(reads[:-1])} and {reads[-1]}" if reads[1:] else reads[0]


def _images(turn: TrajectoryTurn) -> int:
    contents = [message.get("content") for message in turn.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _all_counted(trajectory: Trajectory) -> bool:
    return all(turn.tokens is not None for turn in trajectory.turns)


def key_numbers(trajectory: Trajectory, curve: TokenCurve) -> Iterator[KeyNumber]:
    """The header's numbers."""
    yield _turns(trajectory)
    made = [commit for commit in trajectory.compactions if commit.record.strategy != "rollback"]
    rollbacks = len(trajectory.compactions) - len(made)
    yield KeyNumber(
        "Compactions",
        f"{len(made):,}",
        f"and {count(rollbacks, 'rollback')}" if rollbacks else "",
    )
    yield _now(trajectory, curve)
    scores = [each.record.quality for each in made if each.record.quality is not None]
    yield KeyNumber(
        "Quality",
        f"{scores[-1]:.2f}" if scores else "–",
        f"of the last compaction; lowest {min(scores):.2f}" if scores else "not measured yet",
    )
    costs = [each.record.cost_usd or 0 for each in made]
    if sum(costs):
        yield KeyNumber("Cost", f"${sum(costs):.4f}", "of all summaries")


def _turns(trajectory: Trajectory) -> KeyNumber:
    counts = {
        words: sum(turn.state == state for turn in trajectory.turns)
        for state, words in (("rolled-back", "rolled back"), ("cleared", "cleared"))
    }
    aside = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    return KeyNumber("Turns", f"{len(trajectory.turns):,}", aside or "all part of the conversation")


def _now(trajectory: Trajectory, curve: TokenCurve) -> KeyNumber:
    now, hard, soft = curve.now, trajectory.hard_limit, trajectory.soft_limit
    value = f"{now.tokens:,}" if now.exact else f"≈ {now.tokens:,}"
    if not hard:
        return KeyNumber("Tokens now", value, "limits unknown")
    kind = "over" if now.tokens > hard else ""
    return KeyNumber("Tokens now", value, f"limits: soft {soft:,}, hard {hard:,}", kind)


# --- compactions: what each removed, kept, and how well -------------------------------------------

_DOES = {
    "images": "A short note replaced each older image.",
    "elide": "A short note replaced each bulky older tool result.",
    "window": "The oldest turns were left out. A receipt says which.",
    "rolling": "A new summary replaced older turns and the last summary.",
    "managed": "A text that follows a template replaced older turns.",
    "iterations": "A summary of its own replaced each finished iteration.",
    "rollback": "The session went back to an earlier state.",
    "fork": "The session began as another one was.",
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


# --- the context now, each message with where it comes from ---------------------------------------


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the context.

    Attributes:
        origin: where it comes from, in words; ``""`` when that cannot be told.
        href: of that place on the page, or ``""``.
        kind: as a colour: ``system``, ``stands-for``, ``turn`` or ``other``.
    """

    origin: str
    href: str
    kind: str
    message: ShownMessage


def context_messages(
    trajectory: Trajectory, outcomes: TurnOutcomes, formatter: MessageFormatter
) -> Iterator[ContextMessage]:
    """The messages of the context in order."""
    origins = _origins(trajectory, outcomes)
    for message in trajectory.context:
        known = origins.get(_key(message))
        # The same words may come from two turns: first come, first named.
        origin, href, kind = known.pop(0) if known else _other(message)
        (shown,) = formatter.shown([message], "the context")
        yield ContextMessage(origin, href, kind, shown)


_Origin = tuple[str, str, str]


def _origins(trajectory: Trajectory, outcomes: TurnOutcomes) -> dict[bytes, list[_Origin]]:
    found: dict[bytes, list[_Origin]] = {}

    def add(message: JsonMessage, origin: _Origin) -> None:
        found.setdefault(_key(message), []).append(origin)

    stored = outcomes.stored
    link = f"#version-{stored.version}"
    if trajectory.system_prompt:
        add(system_message(trajectory.system_prompt), ("System prompt", "", "system"))
    head = render_head(stored.model_copy(update={"pins": ()}))
    whole = f"Stands for {span(outcomes.first, stored.watermark)}"
    events = [f"Stands for {span(each.first_seq, each.last_seq)}" for each in stored.events]
    beside = len(head) - len(events) - bool(stored.summary)
    stands = [*([whole] if stored.summary else []), *events, *[whole] * beside]
    for message, words in zip(head, stands, strict=True):
        add(message, (words, link, "stands-for"))
    elided = {(each.seq, each.index): each.message for each in stored.elisions}
    for turn in trajectory.turns:
        if not outcomes.is_read_now(turn):
            continue
        pinned = ", pinned" if turn.pinned else ""
        for index, message in enumerate(turn.messages):
            short = elided.get((turn.seq, index))
            words = f"Turn {turn.seq}{pinned}{', shortened' if short else ''}"
            add(short or message, (words, f"#turn-{turn.seq}", "turn"))
    return found


def _key(message: JsonMessage) -> bytes:
    return sha256(encode_json(message)).digest()


def _other(message: JsonMessage) -> _Origin:
    if message.get("name") == "memories":
        return "Memories given to the agent", "", "stands-for"
    return "", "", "other"


# --- turns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Badge:
    """A few words on a turn; ``href`` leads to what they speak of, or is empty."""

    kind: str
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEntry:
    """One turn, and what happened right after it.

    Attributes:
        outcome: what became of it, as a colour: ``now``, ``covered`` or ``aside``.
        tokens: in words.
        metadata: what the agent said about it, or None.
        changes: compactions, rollbacks and clears before the next turn, in words with their link.
    """

    seq: int
    outcome: str
    when: str
    tokens: str
    weight: int
    badges: tuple[Badge, ...]
    messages: tuple[ShownMessage, ...]
    metadata: Text | None
    changes: tuple[Badge, ...]


def turn_entries(
    trajectory: Trajectory, curve: TokenCurve, outcomes: TurnOutcomes, formatter: MessageFormatter
) -> Iterator[TurnEntry]:
    """One entry for each turn, in order."""
    weight = weights(trajectory)
    changes: dict[int, list[ContextChange]] = {}
    for change in curve.changes:
        changes.setdefault(change.seq, []).append(change)
    for turn in trajectory.turns:
        yield TurnEntry(
            seq=turn.seq,
            outcome=_outcome(turn, outcomes),
            when=clock(turn.at_ms),
            tokens=_tokens(weight[turn.seq]),
            weight=weight[turn.seq].tokens,
            badges=tuple(_badges(turn, outcomes)),
            messages=formatter.shown(turn.messages, f"turn {turn.seq}"),
            metadata=text(as_json(turn.metadata)) if turn.metadata else None,
            changes=tuple(_between(change) for change in changes.get(turn.seq, ())),
        )


def _tokens(weight: Point) -> str:
    return count(weight.tokens, "token") if weight.exact else f"about {weight.tokens:,} tokens"


def _outcome(turn: TrajectoryTurn, outcomes: TurnOutcomes) -> str:
    if turn.state != "kept":
        return "aside"
    return "now" if outcomes.is_read_now(turn) else "covered"


def _badges(turn: TrajectoryTurn, outcomes: TurnOutcomes) -> Iterator[Badge]:
    if turn.pinned:
        yield Badge("pinned", "pinned: kept word for word")
    if turn.iteration is not None:
        yield Badge("plain", f"iteration {turn.iteration}")
    version = outcomes.covered.get(turn.seq)
    if version is not None and not turn.pinned:
        yield Badge("covered", f"covered by v{version}", f"#version-{version}")
    if turn.state == "rolled-back":
        yield Badge("aside", "rolled back: not part of the conversation")
    elif turn.state == "cleared":
        yield Badge("aside", "cleared: not part of the conversation")
    elif turn.seq in outcomes.shortened:
        yield Badge("short", "read shortened now", f"#version-{outcomes.stored.version}")
    elif turn.seq > outcomes.watermark:
        yield Badge("now", "read word for word now")


def _between(change: ContextChange) -> Badge:
    return Badge(change.kind, title(change), f"#version-{change.version}" if change.version else "")


# --- the page -------------------------------------------------------------------------------------

CLOSER = 12
"""Drops in the second drawing of a session with too many to be told apart."""


def page(trajectory: Trajectory) -> str:
    """The session as one HTML document that loads nothing and runs no script but its own.

    Complete: long texts and long sessions are folded, never cut. Encodes as UTF-8 whatever the
    conversation holds.
    """
    curve = token_curve(trajectory)
    outcomes = turn_outcomes(trajectory, curve)
    images = PageImages()
    # Turns first: they carry the images, and other places show these again.
    listed = list(turn_entries(trajectory, curve, outcomes, MessageFormatter(images)))
    commits = list(compaction_cards(trajectory, curve, MessageFormatter(images)))
    context = list(context_messages(trajectory, outcomes, MessageFormatter(images)))
    style, script = _file("page.css"), _file("page.js")
    return _template().render(
        style=Markup(style),  # noqa: S704 - a file of this package
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704 - a file of this package
        script_hash=_hash(script),
        trajectory=trajectory,
        source=short_label(trajectory.source or ""),
        question=text(trajectory.question) if trajectory.question else None,
        answer=text(trajectory.final_answer) if trajectory.final_answer else None,
        system=text(trajectory.system_prompt) if trajectory.system_prompt else None,
        missing=_missing(trajectory),
        sentences=list(sentences(trajectory, curve, outcomes)),
        key_numbers=list(key_numbers(trajectory, curve)),
        charts=[chart(trajectory, curve, wide=wide) for wide in (True, False)],
        closer=[chart(trajectory, curve.newest(CLOSER), wide=wide) for wide in (True, False)]
        if is_dense(curve)
        else [],
        curve=curve,
        kinds={change.kind for change in curve.changes},
        began=clock(trajectory.turns[0].at_ms) if trajectory.turns else "",
        ended=clock(trajectory.turns[-1].at_ms) if trajectory.turns else "",
        commits=folded_groups(commits, first=2, last=30),
        commit_count=len(commits),
        context=folded_groups(context, first=6, last=30),
        turns=folded_groups(listed),
    )


def _missing(trajectory: Trajectory) -> int:
    """Turns that were pushed and are in neither Redis nor the archive any more."""
    return max(0, trajectory.turns[-1].seq - len(trajectory.turns)) if trajectory.turns else 0


@cache
def _template() -> Template:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["score"] = _score
    return environment.get_template("page.html.jinja")


def _score(value: float) -> str:
    return f"{value:.2f}"


@cache
def _file(name: str) -> str:
    return (files("turnmill_cli.visualize") / name).read_text(encoding="utf-8")


def _hash(inline: Any) -> str:
    """What the page's content security policy knows an inline element by."""
    digest = hashlib.sha256(str(inline).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
