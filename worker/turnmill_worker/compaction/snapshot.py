"""An immutable view of a session at one version, with its counts: the input of every strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from turnmill.contract.context import Elision, JsonMessage, Limits, StoredContext, Usage
from turnmill.contract.images import blobs_of
from turnmill.contract.marks import is_memories
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import Policy
from turnmill.contract.rules import UNMARKED, Mark
from turnmill_worker.reading.known import NOTHING_KNOWN, Known
from turnmill_worker.spending import NOT_TRIED, Tried

INTERACTIONS: Final = "interactions"
"""Stands for the strategies that cover turns: any of them leaves fewer interactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of a session.

    Attributes:
        images: images shown after the watermark and in open requests.
        images_before: images in turns covered by now.
        interactions: user requests after the watermark.
        history_tokens: of every turn ever counted.
    """

    images: int = 0
    images_before: int = 0
    interactions: int = 0
    history_tokens: int = 0


def images(messages: Sequence[JsonMessage]) -> int:
    """Images in the messages."""
    return sum(len(image_parts(message)) for message in messages)


def images_asked(stored: StoredContext) -> int:
    """Images in the open requests that stand for turns which are covered."""
    return sum(len(each.images) for each in stored.requests if each.seq <= stored.watermark)


def blobs_shown(stored: StoredContext) -> list[str]:
    """The sha256 of each image that a context shows itself, each once."""
    shown = [message for pin in stored.pins for message in pin.messages]
    shown += [elision.message for elision in stored.elisions]
    shown += [{"content": list(request.images)} for request in stored.requests]
    return blobs_of(shown)


def image_parts(message: JsonMessage) -> list[int]:
    """The positions of images in the message's content."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [at for at, part in enumerate(content) if part.get("type") == "image_url"]


def interactions(messages: Sequence[JsonMessage]) -> int:
    """How many interactions begin in the messages: a user's word, and what follows it.

    Several user messages in a row are one request; memories are nobody's request.
    """
    begun = 0
    before = ""
    for message in messages:
        if is_memories(message):
            continue
        begun += message["role"] == "user" and before != "user"
        before = message["role"]
    return begun


def exceeded(policy: Policy, tally: Tally) -> dict[str, str]:
    """Which counts exceed the policy's, and why, by the strategy that lowers them.

    ``managed`` is among them when there is one complete run more than the policy keeps.
    """
    found = {}
    if policy.max_history_images is not None:
        thumbnail = policy.keep_first_image and tally.images_before == 0
        allowed = policy.max_history_images + thumbnail
        if tally.images > allowed:
            found["images"] = f"{tally.images} images exceed the {allowed} to be kept"
    if policy.max_interactions is not None and tally.interactions > policy.max_interactions:
        found[INTERACTIONS] = (
            f"{tally.interactions} interactions exceed the {policy.max_interactions} to be kept"
        )
    if policy.recent_runs and "managed" in policy.strategies:
        # The newest run is the one the agent is in.
        beside = (policy.passthrough_runs or 0) + 1
        if tally.interactions > beside and tally.history_tokens >= (policy.token_threshold or 0):
            found["managed"] = f"{tally.interactions} runs exceed the {beside} kept word for word"
    return found


def counts_more_than_tokens(policy: Policy) -> bool:
    """Whether a count can exceed the policy's while there are few tokens."""
    kept = (policy.max_history_images, policy.max_interactions)
    return kept != (None, None) or bool(policy.recent_runs and "managed" in policy.strategies)


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A turn of the log that has been counted.

    Attributes:
        seq: its position.
        original: as pushed; what a summarizer is given.
        shown: as read, elisions applied.
        tokens: of ``shown``, exact.
        pinned: it must be kept word for word.
        iteration: the agent's own step number, or None.
        reflection: what the agent noted about its own work (``metadata.reflection``), or ``""``.
        mark: what its metadata say about rules.
        chain: the same exactly if it and all turns before are; ``""`` of a turn not from Redis.
    """

    seq: Seq
    original: tuple[JsonMessage, ...]
    shown: tuple[JsonMessage, ...]
    tokens: int
    pinned: bool = False
    iteration: int | None = None
    reflection: str = ""
    mark: Mark = UNMARKED
    chain: str = ""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A session at one version.

    Attributes:
        epoch: which incarnation of the name this is; a forgotten session gets a new one.
        revision: another with every change of policy, system prompt or tools.
        system_tokens: of the system prompt and the tools.
        commit_id: of the last commit; ``""`` when there is none, or it had no id.
        turns: counted turns after the watermark, by seq.
        pending: upper bound of the tokens of turns nobody has counted yet.
        pending_messages: messages of those turns, which may answer calls of ``turns``.
        history_tokens: of every turn ever counted, compacted or not.
        images_before: images in turns covered by now.
        compactions: commits so far.
        ratio: the provider's tokens for one counted; 0 stands for the policy's.
        earlier: turns covered by now, for ``managed``, which looks back beyond the watermark.
        goal: most tokens a compaction may leave; 0 stands for the policy's target.
        system: the system prompt's text, for a template that shows it.
        tools: of the agent, where a model is to be sent them.
        known: what is kept of turns up to the watermark, to choose texts from.
        tried: what came of asking models since the last commit.
        put_off: below so many tokens no compaction is tried again.
        quiet_s: since the newest turn was pushed.
        unelided: the snapshot without the elisions, rules and requests of a plan; None when it
            makes none.
        memo: what was worked out of it, for all snapshots that are made of it.
    """

    namespace: Namespace
    session: SessionId
    epoch: str
    revision: str
    policy: Policy
    system_tokens: int
    stored: StoredContext
    turns: tuple[LoggedTurn, ...]
    counted_seq: Seq
    commit_id: str = ""
    pending: int = 0
    pending_messages: tuple[tuple[JsonMessage, ...], ...] = ()
    history_tokens: int = 0
    images_before: int = 0
    compactions: int = 0
    ratio: float = 0.0
    earlier: tuple[LoggedTurn, ...] = ()
    goal: int = 0
    system: str = ""
    tools: Sequence[Any] = ()
    known: Known = NOTHING_KNOWN
    tried: Tried = NOT_TRIED
    put_off: int = 0
    quiet_s: float = 0.0
    unelided: Snapshot | None = None
    memo: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def aim(self) -> int:
        """Most tokens a compaction may leave."""
        return self.goal or self.limits.target

    @property
    def version(self) -> Version:
        """The version every commit planned from this snapshot must find."""
        return self.stored.version

    @property
    def limits(self) -> Limits:
        """The session's absolute limits."""
        return self.policy.limits(self.system_tokens, self.ratio)

    @property
    def newest(self) -> tuple[str, str]:
        """Seq and chain of the newest turn it was loaded with, as words; both empty for none."""
        turns = self.before.turns
        return (str(turns[-1].seq), turns[-1].chain) if turns else ("", "")

    @property
    def before(self) -> Snapshot:
        """The session as it was loaded, whatever a plan makes of it."""
        return self.unelided or self

    @cached_property
    def usage(self) -> Usage:
        """Tokens by part."""
        return Usage(
            system=self.system_tokens,
            summary=self.stored.tokens,
            tail=sum(turn.tokens for turn in self.turns),
            pending=self.pending,
        )

    @cached_property
    def tally(self) -> Tally:
        """What is counted besides tokens."""
        return Tally(
            images=sum(images(turn.shown) for turn in self.turns) + images_asked(self.stored),
            images_before=self.images_before,
            interactions=sum(interactions(turn.original) for turn in self.turns),
            history_tokens=self.history_tokens,
        )

    @cached_property
    def exceeded(self) -> dict[str, str]:
        """Which counts exceed the policy's, and why, by the strategy that lowers them."""
        return exceeded(self.policy, self.tally)

    @property
    def thumbnail(self) -> Seq | None:
        """The turn with the session's first image, if the policy keeps it; None when covered."""
        keeps = self.policy.max_history_images is not None and self.policy.keep_first_image
        if not keeps or self.images_before:
            return None
        return next((turn.seq for turn in self.turns if images(turn.original)), None)

    def as_of(self, seq: Seq) -> Snapshot:
        """The session as if nothing had been pushed after this turn, which has been counted."""
        turns = tuple(turn for turn in self.turns if turn.seq <= seq)
        return replace(self, turns=turns, counted_seq=seq, pending=0, pending_messages=(), memo={})

    def with_elisions(self, elisions: Sequence[Elision]) -> Snapshot:
        """The same session as it would be read with these elisions added."""
        by_seq: dict[int, dict[int, Elision]] = {}
        for elision in elisions:
            by_seq.setdefault(elision.seq, {})[elision.index] = elision
        turns = tuple(_elide(turn, by_seq.get(turn.seq, {})) for turn in self.turns)
        kept = [e for e in self.stored.elisions if e.index not in by_seq.get(e.seq, {})]
        merged = sorted([*kept, *elisions], key=lambda e: (e.seq, e.index))
        stored = self.stored.model_copy(update={"elisions": tuple(merged)})
        return replace(self, turns=turns, stored=stored, unelided=self.before)


def _elide(turn: LoggedTurn, elisions: dict[int, Elision]) -> LoggedTurn:
    if not elisions:
        return turn
    shown = tuple(
        elisions[at].message if at in elisions else message for at, message in enumerate(turn.shown)
    )
    saved = sum(e.tokens_before - e.tokens_after for e in elisions.values())
    return replace(turn, shown=shown, tokens=turn.tokens - saved)
