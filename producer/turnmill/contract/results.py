"""What the methods of a session's handle return: frozen, and JSON on both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from turnmill.contract.context import Limits, Usage
from turnmill.contract.correction import Correction
from turnmill.contract.formats import Value
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.contract.policy import Policy


class TurnResult(Value):
    """What ``process_turn`` did.

    Attributes:
        seq: the input's turn.
        grounding_used: ids of the memories the input was grounded with, the most relevant first.
        summarization_triggered: the context is estimated over its soft limit: workers compact it.
        checkpoint_created: id of the automatic checkpoint this turn made, or None.
        quality_score: of the session's last compaction, 0..1; 1 before the first.
        token_count: of the context now; an upper bound until a worker has counted the turn.
    """

    seq: Seq
    grounding_used: tuple[str, ...]
    summarization_triggered: bool
    checkpoint_created: str | None
    quality_score: float
    token_count: int


class ParkedSession(Value):
    """A session whose compactions keep failing.

    Attributes:
        since_ms: when it was parked, milliseconds since 1970.
        failures: compactions that failed in a row.
        error: the kind of error of the last failure.
        tokens: of its context, as far as they are counted.
    """

    session: SessionId
    since_ms: int
    failures: int
    error: str
    tokens: int


class Bill(Value):
    """Sums over compactions: over all, or over those of one day, session or model.

    Attributes:
        namespace, day, session, model: what they are of, None where it was not asked for. A day is
            UTC's, such as ``2026-03-01``; the model is ``none`` where none was needed.
        compactions: how many; a model that was asked and refused wrote none.
        tokens_saved: tokens before less tokens after.
        prompt_tokens, completion_tokens: billed by models' endpoints, refused answers included.
        cost_usd: of those, at list price.
        unpriced: how often a compaction asked a model of unknown price; ``cost_usd`` is without.
    """

    namespace: Namespace | None = None
    day: str | None = None
    session: SessionId | None = None
    model: str | None = None
    compactions: int
    tokens_saved: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    unpriced: int


class SessionPage(Value):
    """Some sessions of a namespace, the most recently pushed first.

    Attributes:
        sessions: their names.
        after: asks for those that follow, or None where these are the last.
    """

    sessions: list[SessionId]
    after: str | None


class GroundedMemory(Value):
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

    id: str
    text: str
    kind: str
    session: SessionId | None
    seq: Seq | None = None
    speaker: str
    at_ms: int
    relevance: float


class GroundedContext(Value):
    """What the namespace remembers about a query.

    Attributes:
        memories: the most relevant first, at most ``k``.
        degraded: what could not be used for the answer, in words, or ``""``.
    """

    memories: tuple[GroundedMemory, ...] = ()
    degraded: str = ""

    @property
    def relevance_scores(self) -> tuple[float, ...]:
        """0..1 for each memory."""
        return tuple(memory.relevance for memory in self.memories)

    @property
    def summary(self) -> str:
        """All memories as one text, a line each, with the session and turn it is from."""
        from turnmill.contract.render import memory_line  # noqa: PLC0415 - it knows results

        return "\n".join(map(memory_line, self.memories))


class SummarizationResult(Value):
    """What a requested summarization did.

    Attributes:
        tokens_before, tokens_after: of the whole context.
        turns_summarized: 0 when there was nothing to do.
        summary: the text that now stands for all turns up to the watermark.
        version: of the context.
        reason: why nothing was done, or ``""``.
    """

    tokens_before: int
    tokens_after: int
    turns_summarized: int
    summary: str
    version: Version
    reason: str = ""


class Checkpoint(Value):
    """A state of a session that a rollback can restore.

    Attributes:
        id: what ``rollback(to=…)`` takes.
        seq: the newest turn in it.
        version: of its context.
        message: what the agent said about it; empty for an automatic one.
        at_ms: when it was made.
        automatic: made by ``Policy.checkpoint_interval``.
    """

    id: str
    seq: Seq
    version: Version
    message: str
    at_ms: int
    automatic: bool


class RollbackResult(Value):
    """What a rollback restored.

    Attributes:
        restored: the checkpoint's id, or ``version <n>``.
        seq: the newest turn of the session now.
        version: of the context now; a rollback raises it, too.
        turns_lost: turns taken out of the session; the archive keeps them, marked.
    """

    restored: str
    seq: Seq
    version: Version
    turns_lost: int


class Forked(Value):
    """How a session began that is a fork of another.

    Attributes:
        session: the fork.
        of: the session that it was forked from.
        seq: its newest turn; seqs are the same in both.
        version: of its context.
    """

    session: SessionId
    of: SessionId
    seq: Seq
    version: Version


class Forgotten(Value):
    """What forgetting removed; true when there was such a session.

    Attributes:
        existed: whether the session was in Redis.
        keys_left: how many of the session's keys are still in Redis.
    """

    existed: bool
    keys_left: int

    def __bool__(self) -> bool:
        return self.existed


Waits = Literal["turn", "model", "batch"]
"""What a summary waits for; see ``Wait``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What keeps a session from being compacted though it is due.

    Attributes:
        on: ``turn`` - its turn in the queue ``summarize``: other sessions come first; ``model`` -
            its models fail for now, and it is deferred until it is due; ``batch`` - the answer,
            which is looked for when it is due; ``worker`` - a worker is compacting it.
        for_s: seconds since it began to wait for its summary, whatever it waits for now; or None.
        failed: why its models wrote nothing when they were asked last; see ``Compaction.failed``.
        tries: how often it was deferred since its last commit.
    """

    on: Waits | Literal["worker"]
    for_s: float | None
    failed: tuple[str, ...] = ()
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextInfo:
    """The state of a session in numbers, without its content.

    Attributes:
        session, namespace: whose it is.
        version, watermark, last_seq: as in ``Context``.
        counted_seq: highest seq a worker has counted.
        usage: tokens by part; the system prompt's with the tools'.
        tools_tokens: of the tools' schemas.
        correction: the provider's tokens for one counted, which ``usage`` is corrected by; its
            ``error`` is known once the agent told of usage.
        basis: what they were counted with, such as ``o200k_base/2/gpt-4o``, or
            ``heuristic/…`` where a worker had no vocabulary; ``""`` before the first count.
        limits: the session's absolute limits.
        policy: as stored, or the default.
        pending_bytes: bytes of JSON in turns no worker has counted yet, images left out.
        total_messages: messages in the context without projection; the system prompt counts,
            stubs for calls that were never answered do not.
        turns_in_log: turns not yet covered.
        turns_covered: turns that left the log and are not in the archive yet.
        compactions: commits ever made.
        interactions: user requests after the watermark, each with what follows it.
        images: images shown after the watermark, and in open requests.
        history_tokens: of every turn counted since the session began or was cleared.
        quality: the score of the last compaction, 0..1, or None before the first.
        settings: raised by one with every change of policy, system prompt or tools.
        policy_name: of the namespace's policy it follows, or ``""``.
        pending_for_s: seconds its turns have waited to be counted, or None while none need be.
        due_in_s: seconds until a compaction is due, negative when overdue, or None.
        failures: compactions that failed in a row since the last commit.
        parked_for_s: seconds since it was parked, or None.
        wait: what keeps it from being compacted now though it is due, or None.
        parent: the session whose sub-agent it is, or ``""``.
    """

    session: SessionId
    namespace: Namespace
    version: Version
    watermark: Seq
    last_seq: Seq
    counted_seq: Seq
    usage: Usage
    tools_tokens: int
    correction: Correction
    basis: str
    limits: Limits
    policy: Policy
    pending_bytes: int
    total_messages: int
    turns_in_log: int
    turns_covered: int
    compactions: int
    interactions: int
    images: int
    history_tokens: int
    quality: float | None
    settings: int
    policy_name: str
    pending_for_s: float | None
    due_in_s: float | None
    failures: int
    parked_for_s: float | None
    wait: Wait | None
    parent: str = ""

    @property
    def under_limit(self) -> bool:
        """Whether a read needs no projection."""
        return self.usage.total <= self.limits.hard

    @property
    def estimated_tokens(self) -> int:
        """Tokens of the whole context without projection: as counted, else ⌈characters / 3.5⌉."""
        pending = self.correction.corrected(math.ceil(self.pending_bytes / 3.5))
        return self.usage.total - self.usage.pending + pending

    # As specification 001 names them.

    @property
    def total_tokens(self) -> int:
        """Tokens of the whole context."""
        return self.usage.total

    @property
    def system_prompt_tokens(self) -> int:
        """Tokens of the system prompt."""
        return self.usage.system - self.tools_tokens

    @property
    def conversation_tokens(self) -> int:
        """Tokens of everything besides the system prompt and the tools."""
        return self.usage.total - self.usage.system

    @property
    def conversation_interactions(self) -> int:
        """User requests kept word for word."""
        return self.interactions
