"""What the methods of a session's handle return: frozen, and JSON on both sides."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from turnmill.contract.names import Seq, SessionId, Version

__all__ = [
    "Checkpoint",
    "Forgotten",
    "GroundedContext",
    "GroundedMemory",
    "ParkedSession",
    "RollbackResult",
    "SummarizationResult",
    "TurnResult",
]

_VALUE = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class TurnResult(BaseModel):
    """What ``process_turn`` did.

    Attributes:
        seq: the input's turn.
        grounding_used: ids of the memories the input was grounded with, the most relevant first.
        summarization_triggered: the context is estimated over its soft limit: workers compact it.
        checkpoint_created: id of the automatic checkpoint this turn made, or None.
        quality_score: of the session's last compaction, 0..1; 1 before the first.
        token_count: of the context now; an upper bound until a worker has counted the turn.
    """

    model_config = _VALUE

    seq: Seq
    grounding_used: tuple[str, ...]
    summarization_triggered: bool
    checkpoint_created: str | None
    quality_score: float
    token_count: int


class ParkedSession(BaseModel):
    """A session whose compactions keep failing.

    Attributes:
        since_ms: when it was parked, milliseconds since 1970.
        failures: compactions that failed in a row.
        error: the kind of error of the last failure.
        tokens: of its context, as far as they are counted.
    """

    model_config = _VALUE

    session: SessionId
    since_ms: int
    failures: int
    error: str
    tokens: int


class GroundedMemory(BaseModel):
    """A memory found for a query.

    Attributes:
        id: of the memory.
        text: a summary's begins with ``[context-summary]``.
        kind: ``turn``, ``summary`` or ``pushed``.
        session: whose it is, or None for one pushed to the namespace.
        seq: the turn it was said in; None for all others.
        speaker: the speaker's role or name.
        at_ms: when, milliseconds since 1970.
        relevance: 0..1, 1 being all that can be asked for.
    """

    model_config = _VALUE

    id: str
    text: str
    kind: str
    session: SessionId | None
    seq: Seq | None = None
    speaker: str
    at_ms: int
    relevance: float


class GroundedContext(BaseModel):
    """What the namespace remembers about a query.

    Attributes:
        memories: the most relevant first, at most ``k``.
        degraded: what could not be used for the answer, in words, or ``""``.
    """

    model_config = _VALUE

    memories: tuple[GroundedMemory, ...] = ()
    degraded: str = ""

    @property
    def relevance_scores(self) -> tuple[float, ...]:
        """0..1 for each memory."""
        return tuple(memory.relevance for memory in self.memories)

    @property
    def summary(self) -> str:
        """All memories as one text, a line each."""
        return "\n".join(f"- {memory.text}" for memory in self.memories)


class SummarizationResult(BaseModel):
    """What a requested summarization did.

    Attributes:
        tokens_before, tokens_after: of the whole context.
        turns_summarized: 0 when there was nothing to do.
        summary: the text that now stands for all turns up to the watermark.
        version: of the context.
        reason: why nothing was done, or ``""``.
    """

    model_config = _VALUE

    tokens_before: int
    tokens_after: int
    turns_summarized: int
    summary: str
    version: Version
    reason: str = ""


class Checkpoint(BaseModel):
    """A state of a session that a rollback can restore.

    Attributes:
        id: what ``rollback(to=…)`` takes.
        seq: the newest turn in it.
        version: of its context.
        message: what the agent said about it; empty for an automatic one.
        at_ms: when it was made.
        automatic: made by ``Policy.checkpoint_interval``.
    """

    model_config = _VALUE

    id: str
    seq: Seq
    version: Version
    message: str
    at_ms: int
    automatic: bool


class RollbackResult(BaseModel):
    """What a rollback restored.

    Attributes:
        restored: the checkpoint's id, or ``version <n>``.
        seq: the newest turn of the session now.
        version: of the context now; a rollback raises it, too.
        turns_lost: turns taken out of the session; the archive keeps them, marked.
    """

    model_config = _VALUE

    restored: str
    seq: Seq
    version: Version
    turns_lost: int


class Forgotten(BaseModel):
    """What forgetting removed; true when there was such a session.

    Attributes:
        existed: whether the session was in Redis.
        keys_left: how many of the session's keys are still in Redis.
    """

    model_config = _VALUE

    existed: bool
    keys_left: int

    def __bool__(self) -> bool:
        return self.existed
