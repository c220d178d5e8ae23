"""What a job did, as a small value without content: a task's result, and a compaction's record."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, ValidationError

from turnmill.contract.codec import encode_json
from turnmill.contract.formats import Value, readable, stamp, unreadable
from turnmill.contract.names import Namespace, Seq, SessionId, Version

ASKED_AGAIN: Final = "asked again: "
"""Before the check that an answer failed which was asked for once more, in ``items``."""


class Outcome(Value):
    """What a job did.

    Attributes:
        outcome: ``estimated`` - turns were counted; ``committed`` - a new context was written;
            ``skipped`` - nothing to do; ``no-plan`` - over the soft limit, and nothing worth doing
            until more turns arrive; ``needs-summary`` - handed on to the summarize queue;
            ``deferred`` - its models fail for now, and it is due again in ``retry_s``;
            ``batched`` - its summary is awaited from a batch;
            ``parked`` - its compactions keep failing, and it waits for somebody to retry it;
            ``below-quality`` - every rung scored below the policy's threshold, and the previous
            context stays; ``leased`` - another worker has it; ``stale`` - the session changed
            meanwhile, and was hinted again; ``archived`` - turns are in the archive now;
            ``answered`` - what an agent asked for was done; ``late`` - nobody waits for that
            answer any more; ``forgotten`` - a session left the archive; ``unknown`` - there is no
            such session.
        session: the session it was about; for ``turnmill.summarize`` the one whose turn it was,
            which is often not the one its message names.
        namespace: its namespace, where the message names another.
        sessions: how many it was about, where one job is for more than ``session``.
        turns: how many were counted, covered or archived.
        elided: messages of turns still in the log that are read shortened.
        model: what wrote the summaries committed; as in ``Compaction``.
        rejected: strategies whose result was refused on the way, cheapest first.
        failed: why summarizers wrote nothing, so that another stood in or the session waits;
            the words of ``Compaction.failed``.
        items: what became of a model's statements; see ``Compaction.items``.
        retry_s: seconds until a deferred session is tried again.
        cost_usd: of the summaries' calls, at list price, failed tries included.
        waited_s: seconds from its message's sending to its start, where a second or more.
    """

    outcome: Literal[
        "estimated",
        "committed",
        "skipped",
        "no-plan",
        "needs-summary",
        "deferred",
        "parked",
        "batched",
        "below-quality",
        "archived",
        "answered",
        "late",
        "forgotten",
        "leased",
        "stale",
        "unknown",
    ]
    session: SessionId
    namespace: Namespace | None = None
    sessions: int | None = None
    turns: int | None = None
    elided: int | None = None
    tokens: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    strategy: str | None = None
    model: str | None = None
    version: Version | None = None
    quality: float | None = None
    rejected: tuple[str, ...] | None = None
    failed: tuple[str, ...] | None = None
    items: dict[str, int] | None = None
    retry_s: float | None = None
    cost_usd: float | None = None
    waited_s: float | None = None


class Billed(Value):
    """What one model was billed for a compaction; the fields as of ``Compaction``."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


class Compaction(Value):
    """One completed compaction, as recorded and announced.

    Attributes:
        from_watermark, watermark: turns after the first, up to the second, were covered.
        elided: messages of later turns that are read shortened.
        tokens_before, tokens_after: of the whole context, system prompt included.
        last_seq: the newest turn counted when it was planned.
        quality: the score of what it committed, 0..1, or None when nothing was covered.
        quality_parts: the score's parts by name, each 0..1.
        model: what wrote its summaries: a model's name, or ``extractive``; empty without any.
        prompt_tokens, completion_tokens: billed by the model's endpoint, failed tries included.
        cost_usd: of those, at list price; None when no price is known.
        billed: of those, what each model was that was asked; nothing where only ``model`` was.
        failed: why each summarizer tried before ``model`` did not write it: the kind of its error;
            ``below-quality`` - its text kept much less; ``stale`` - the session had changed each
            time a text was ready. Behind ``UnusableSummary:``, what was wrong with each answer.
        items: how many of a model's statements were ``kept``, and how many not, by reason; behind
            ``ASKED_AGAIN``, how many answers failed a check before one that led to the text.
        rules_added, rules_ended: how many of the user's rules came into the context and left it.
    """

    session: SessionId
    version: Version
    strategy: str
    from_watermark: Seq
    watermark: Seq
    turns: int
    elided: int
    tokens_before: int
    tokens_after: int
    last_seq: Seq = Seq(0)
    quality: float | None = None
    quality_parts: dict[str, float] = Field(default_factory=dict)
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    billed: dict[str, Billed] = Field(default_factory=dict)
    failed: tuple[str, ...] = ()
    items: dict[str, int] = Field(default_factory=dict)
    rules_added: int = 0
    rules_ended: int = 0

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The stored record; fields of a newer version are left out.

        Raises:
            NewerFormat, CorruptContext: this version cannot read it, or none could.
        """
        fields = readable(body, "record of a compaction")
        try:
            return cls.model_validate(fields)
        except ValidationError:
            raise unreadable(fields, "record of a compaction", "a field is wrong") from None

    def encode(self) -> bytes:
        """What ``parse`` reads."""
        return encode_json({**self.model_dump(mode="json", exclude_defaults=True), **stamp()})
