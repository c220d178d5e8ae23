"""What a commit stores, what a push returns, and tokens with their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from turnmill.contract.codec import encode_json
from turnmill.contract.formats import FIRST, Kept, readable, stamp, unreadable
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.rules import Rule
from turnmill.contract.turns import explain

CHILD: Final = "child"
"""The strategy that the first context of a sub-agent's session names."""

NO_COMPACTION: Final = ("rollback", "erase", "fork", CHILD)
"""Strategies of commits that compact nothing."""

JsonMessage = dict[str, Any]
"""A message as JSON has it: what the ``openai`` client takes and what Redis holds."""


class OpenRequest(Kept):
    """What the user asked for, or added to it, in one turn.

    Attributes:
        seq: the turn it was said in.
        text: as the user wrote it; where it is too long, whole lines of it, and marks for the rest.
        first: the session began with it.
        earlier: the agent answered it, and the user asked for something else since.
        images: parts of content that show its images, oldest first.
        images_gone: how many images of it are not among them.
    """

    seq: Seq
    text: str
    first: bool = False
    earlier: bool = False
    images: tuple[JsonMessage, ...] = ()
    images_gone: int = 0

    def with_newest(self, images: int) -> Self:
        """The request with so many of its images at most."""
        gone = max(len(self.images) - max(images, 0), 0)
        update = {"images": self.images[gone:], "images_gone": self.images_gone + gone}
        return self.model_copy(update=update) if gone else self


class OpenCall(Kept):
    """A call that had no result when the turns it stands among were covered.

    Attributes:
        seq: the turn it was made in.
        id: what its result is given for.
        name: the tool's.
        arguments: as they were sent; the middle of long ones is left out.
    """

    seq: Seq
    id: str
    name: str
    arguments: str = ""


class Receipt(Kept):
    """What a compaction or projection removed, and where it was.

    Attributes:
        by: the strategy, or ``projection``.
        first_seq, last_seq: the turns it touched, both included.
        turns: how many of them were left out; 0 when they were only shortened inside.
        tokens: how many tokens those had; when only shortened, at least how many had to go.
    """

    by: str
    first_seq: int
    last_seq: int
    turns: int
    tokens: int


class Elision(Kept):
    """A message of a turn still in the log, read back shorter than it was pushed.

    Attributes:
        seq: the turn.
        index: the message's position in it, from 0.
        message: what stands in its place; it says what was removed.
        tokens_before, tokens_after: of the whole message.
    """

    seq: int
    index: int
    message: JsonMessage
    tokens_before: int
    tokens_after: int


class PinnedTurn(Kept):
    """A turn under the watermark that every context keeps word for word."""

    seq: int
    messages: tuple[JsonMessage, ...]


class SummaryEvent(Kept):
    """What stands for one iteration of an agent loop, for a part of one, or for several folded.

    Attributes:
        iteration: the agent's own step number, or the count of user requests.
        first_seq, last_seq: the turns it stands for, both included.
        text: two or three sentences; longer for a long iteration, and when folded.
        last_iteration: the newest iteration in it.
    """

    iteration: int
    last_iteration: int
    first_seq: int
    last_seq: int
    text: str


class StoredContext(Kept):
    """What one commit writes: everything a context has beside its tail.

    Attributes:
        version: raised by one with each commit; 0 before the first.
        watermark: highest seq the summary and receipts stand for.
        summary: text standing for the turns up to the watermark; empty when there is none.
        pins: pinned turns up to the watermark.
        elisions: shortened messages of turns after the watermark.
        receipts: turns removed without a summary.
        tokens: of the messages made of summary, ledger, receipts and pins, counted exactly.
        strategy: what made this version.
        events: summaries of single iterations, oldest first; only ever appended to, until the
            oldest are folded.
        managed: whether ``summary`` was written to a template, and is shown as such.
        ledger: facts of those turns, word for word, which the summary does not state; a line a
            turn and speaker, or ``""``.
        rules: what the user laid down in those turns and is in force, oldest first.
        requests: what the user asked for in those turns and is still open, oldest first.
        calls: calls of those turns that had no result in them; one may come yet.
        recall: whether the agent's model can look those turns up.
        format: of the version that wrote it; never an older one's.
    """

    version: Version = Version(0)
    watermark: Seq = Seq(0)
    summary: str = ""
    pins: tuple[PinnedTurn, ...] = ()
    elisions: tuple[Elision, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    tokens: int = 0
    strategy: str = ""
    events: tuple[SummaryEvent, ...] = ()
    managed: bool = False
    ledger: str = ""
    rules: tuple[Rule, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    calls: tuple[OpenCall, ...] = ()
    recall: bool = False
    format: str = FIRST

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it stands for turns that are gone."""
        return not (self.summary or self.events or self.receipts)

    @property
    def begins(self) -> bool:
        """Whether it stands for no turn of the session's own, so that the next one opens it."""
        return self.watermark == 0 or self.strategy == CHILD

    @classmethod
    def parse(cls, body: bytes | None) -> Self:
        """The stored value, or version 0 for none.

        Raises:
            NewerFormat, CorruptContext: this version cannot read it, or none could.
        """
        if body is None:
            return EMPTY  # type: ignore[return-value]
        fields = readable(body, "stored context")
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise unreadable(fields, "stored context", explain(error)) from None

    def encode(self) -> bytes:
        """What ``parse`` reads."""
        return encode_json({**self.model_dump(exclude_defaults=True), **stamp(self.format)})

    @property
    def unknown(self) -> dict[str, Any]:
        """Fields of a newer version, and its format: the next context carries them along."""
        return {**(self.model_extra or {}), "format": self.format}


EMPTY = StoredContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """Where a turn went.

    Attributes:
        session: the session.
        seq: the turn's position; the same for a turn_id pushed before.
        turn_id: the id it was pushed under.
        duplicate: it was there already, and nothing was stored.
        checkpoint: id of the automatic checkpoint it made, or None.
        cut: characters of texts and bytes of images that were left out, as the turn was too large.
    """

    session: SessionId
    seq: Seq
    turn_id: str
    duplicate: bool
    checkpoint: str | None = None
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a context, by part.

    Attributes:
        system: the system prompt and the tools' schemas.
        summary: summary, ledger, receipts and pins, as one number.
        tail: turns after the watermark that a worker has counted.
        pending: an upper bound for turns no worker has counted yet.
    """

    system: int = 0
    summary: int = 0
    tail: int = 0
    pending: int = 0

    REPLY = 3
    """Tokens a chat model adds to open its reply (OpenAI's cookbook formula)."""

    @property
    def total(self) -> int:
        """All parts and the reply's opening."""
        return self.system + self.summary + self.tail + self.pending + self.REPLY


class Limits(BaseModel):
    """Absolute token limits of one session, its system prompt and tools counted in.

    Attributes:
        hard: a context above it may be refused by the model, so a read projects.
        soft: a context above it is compacted in the background.
        target: what a compaction aims for.
        room: tokens between the system prompt with the tools and ``hard``.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    hard: int
    soft: int
    target: int
    room: int

    @property
    def urgent(self) -> int:
        """Half way from soft to hard: above it there is no time to wait for a better cut."""
        return (self.soft + self.hard) // 2

    def over(self, usage: Usage) -> Literal["hard", "soft", ""]:
        """The limit that a context of this usage is over."""
        return "hard" if usage.total > self.hard else "soft" if usage.total > self.soft else ""

    def share_left(self, tokens: int) -> float:
        """The share of the room that a context of so many tokens leaves; may be negative."""
        return (self.hard - tokens) / max(self.room, 1)
