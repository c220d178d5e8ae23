"""What a job did, as a small value without content: a task's result, and a compaction's record."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from turnmill.contract.names import Seq, SessionId, Version

__all__ = ["Compaction", "Outcome"]

_VALUE = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Outcome(BaseModel):
    """What a job did.

    Attributes:
        outcome: ``estimated`` - turns were counted; ``committed`` - a new context was written;
            ``skipped`` - nothing to do; ``no-plan`` - over the soft limit, and nothing worth doing
            until more turns arrive; ``needs-summary`` - handed on to the summarize queue;
            ``leased`` - another worker is at it; ``stale`` - the session changed meanwhile, and
            was hinted again; ``unknown`` - there is no such session.
        turns: how many were counted or covered.
        elided: messages of turns still in the log that are read shortened.
        rejected: strategies whose result was refused on the way, cheapest first.
    """

    model_config = _VALUE

    outcome: Literal[
        "estimated",
        "committed",
        "skipped",
        "no-plan",
        "needs-summary",
        "leased",
        "stale",
        "unknown",
    ]
    session: SessionId
    turns: int | None = None
    elided: int | None = None
    tokens: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    strategy: str | None = None
    version: Version | None = None
    rejected: tuple[str, ...] | None = None


class Compaction(BaseModel):
    """One completed compaction, as recorded and announced.

    Attributes:
        from_watermark, watermark: turns after the first, up to the second, were covered.
        elided: messages of later turns that are read shortened.
        tokens_before, tokens_after: of the whole context, system prompt included.
    """

    model_config = _VALUE

    session: SessionId
    version: Version
    strategy: str
    from_watermark: Seq
    watermark: Seq
    turns: int
    elided: int
    tokens_before: int
    tokens_after: int
