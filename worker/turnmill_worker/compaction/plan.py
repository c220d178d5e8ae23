"""Where the log may be cut, what a compaction will do, and the summaries it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from turnmill.contract.context import (
    JsonMessage,
    OpenCall,
    OpenRequest,
    Receipt,
    StoredContext,
    SummaryEvent,
)
from turnmill.contract.legality import CallTracker, segments
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill.contract.rules import Rule
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, images, interactions
from turnmill_worker.compaction.waiting import dead_calls
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.requests import newest_images, opening_turns
from turnmill_worker.reading.said import is_shown


@dataclass(frozen=True, slots=True)
class Group:
    """Turns a cut may not separate: one turn, a batch of calls with its results, or what was asked.

    Attributes:
        turns: by seq.
        tokens: of all its turns, as read.
        closed: every call in it has its result, so it may be compacted.
        pinned: one of its turns is pinned; then the group is kept, so that no result is orphaned.
    """

    turns: tuple[LoggedTurn, ...]
    tokens: int
    closed: bool
    pinned: bool

    @property
    def interactions(self) -> int:
        """How many user requests the group has."""
        return sum(interactions(turn.original) for turn in self.turns)

    @property
    def last_seq(self) -> Seq:
        """Its newest turn."""
        return self.turns[-1].seq


def groups(snapshot: Snapshot) -> list[Group]:
    """The snapshot's turns in groups; one that reaches into turns not yet counted is open."""
    thumbnail = snapshot.thumbnail
    turns: list[LoggedTurn | None] = [*snapshot.turns, *(None for _ in snapshot.pending_messages)]
    messages = [*(turn.original for turn in snapshot.turns), *snapshot.pending_messages]
    parts, last_is_open = segments(turns, messages)
    found = []
    for at, part in enumerate(parts, 1):
        counted = tuple(turn for turn in part if turn is not None)
        if counted:
            waits = len(counted) < len(part) or (last_is_open and at == len(parts))
            tokens = sum(turn.tokens for turn in counted)
            pinned = any(turn.pinned or turn.seq == thumbnail for turn in counted)
            found.append(Group(turns=counted, tokens=tokens, closed=not waits, pinned=pinned))
    began = opening_turns(messages) if snapshot.stored.begins else 0
    opening = found[:began]
    if not opening[1:] or any(group.pinned for group in opening):
        return found
    # Where only a part of what was asked is covered, nobody can tell what the rest belongs to.
    return [_one(opening), *found[began:]]


def _one(parts: Sequence[Group]) -> Group:
    """Several groups that nothing is pinned in as one."""
    return Group(
        turns=tuple(turn for part in parts for turn in part.turns),
        tokens=sum(part.tokens for part in parts),
        closed=all(part.closed for part in parts),
        pinned=False,
    )


def choose_cut(
    found: Sequence[Group],
    budget: int,
    *,
    pending: bool = False,
    most_interactions: int | None = None,
) -> int:
    """How many of the oldest groups to cover so that what stays has at most ``budget`` tokens.

    With ``most_interactions``, what stays also has at most that many. It then begins with a
    user's request, if one is left, so that no answer stays without its question.

    Returns the fewest that do; 0 when no cut does. The later groups and the pinned ones stay.
    Open groups are never covered, nor is the newest group unless ``pending`` turns follow it: an
    agent must find its last turn in its context. Linear in the number of groups.
    """
    kept = sum(group.tokens for group in found)
    freed = 0
    fewest = 0
    excess = _excess(found, most_interactions)
    for at, group in enumerate(found if pending else found[:-1], 1):
        if not group.closed:
            break
        if not group.pinned:
            kept -= group.tokens
            freed += group.tokens
        excess -= group.interactions
        if kept <= budget and freed > 0 and excess <= 0:
            fewest = fewest or at
            if most_interactions is None or _begins(found[at:]):
                return at
    return fewest


def _excess(found: Sequence[Group], most: int | None) -> int:
    """By how many the interactions exceed the limit."""
    return 0 if most is None else sum(group.interactions for group in found) - most


def _begins(found: Sequence[Group]) -> bool:
    """Whether these begin with a user's request, or with turns nobody has counted yet."""
    return not found or found[0].interactions > 0


Records = tuple[tuple[Seq, JsonMessage], ...]
"""Messages with the seqs of their turns, oldest first, never truncated."""


@dataclass(frozen=True, slots=True)
class SentContext:
    """A context as its agent sends it, for a model that is to summarize it where it stands.

    Attributes:
        messages: system prompt, what stands for older turns, and turns, in chat's shape.
        tools: as the session was told.
        tokens: of both, at most.
    """

    messages: tuple[JsonMessage, ...]
    tools: Sequence[Any]
    tokens: int


def sent_context(snapshot: Snapshot) -> SentContext | None:
    """What the session's agent sent last, if the policy wants it summarized there.

    None where a read cuts it, or its images would have to be sent again. A call whose result is not
    there yet is left out.
    """
    if snapshot.policy.summary_on != "context" or snapshot.usage.total > snapshot.limits.hard:
        return None
    tracker = CallTracker.after(snapshot.stored)
    turns = [tracker.repair(turn.shown) for turn in snapshot.turns]
    whole, is_open = segments(turns, turns)
    told = chain.from_iterable(whole[: len(whole) - is_open])
    kept = chain.from_iterable(told)
    sent = (*render_head(snapshot.stored, snapshot.system), *kept)
    return None if images(sent) else SentContext(sent, snapshot.tools, snapshot.usage.total)


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
        context: what the agent sent last, where the model is to be asked behind it.
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
    context: SentContext | None = None
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
    def asks(self) -> bool:
        """Whether it needs a summary."""
        return self.request is not None or bool(self.wanted)

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
        """Open requests of turns that do not stay: the new context has to state them.

        With the images that the policy leaves room for beside those of the turns that stay.
        """
        snapshot, cut = self.snapshot, self.cut
        stated = tuple(each for each in snapshot.stored.requests if each.seq <= cut)
        most = snapshot.policy.max_history_images
        if most is None:
            return stated
        beside = sum(images(turn.shown) for turn in snapshot.turns if turn.seq > cut)
        beside -= (snapshot.thumbnail or 0) > cut  # the session's first image does not count
        return newest_images(stated, most - beside)

    @property
    def calls(self) -> tuple[OpenCall, ...]:
        """Calls of turns that do not stay which nothing up to the cut answers."""
        snapshot, cut = self.snapshot, self.cut
        if not snapshot.stored.calls:
            return ()
        covered = [turn for turn in snapshot.turns if turn.seq <= cut]
        dead = {(call.seq, call.id) for call in dead_calls(snapshot.before.stored, covered)}
        return tuple(each for each in snapshot.stored.calls if (each.seq, each.id) in dead)


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
