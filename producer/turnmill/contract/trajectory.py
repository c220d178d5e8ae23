"""A whole session, whatever was compacted: its turns from archive and log, and its compactions.

``Trajectory`` is what `turnmill visualize` draws and what leaves turnmill as JSON::

    Path("agent-7.json").write_text(trajectory.model_dump_json())
    Trajectory.model_validate_json(Path("agent-7.json").read_bytes())
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic_core import PydanticSerializationError

from turnmill.contract.codec import sendable
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.formats import Value
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.plural import count

TurnState = Literal["kept", "rolled-back", "cleared"]
"""Whether a turn is part of the conversation, or was set aside by a rollback or by ``clear``."""


class TrajectoryTurn(Value):
    """One turn as it was pushed.

    Attributes:
        seq, turn_id, iteration, metadata, pinned: as in ``Turn`` and ``Pushed``.
        messages: in push order, images as they came.
        at_ms: when Redis admitted it, milliseconds since 1970.
        tokens: exact, of the turn as it was read last, or None when no worker has counted it.
        state: ``kept``, or how it left the conversation.
    """

    seq: Seq
    messages: tuple[JsonMessage, ...]
    turn_id: str = ""
    iteration: int | None = None
    metadata: dict[str, Any] | None = None
    pinned: bool = False
    at_ms: int = 0
    tokens: int | None = None
    state: TurnState = "kept"


class CommittedContext(Value):
    """One compaction and the context it committed.

    Attributes:
        at_ms: when it was committed, milliseconds since 1970.
        record: strategy, tokens before and after, quality, cost.
        context: what it wrote: everything a read at that version had beside its tail.
    """

    at_ms: int
    record: Compaction
    context: StoredContext


class LostTurns(Value):
    """What the archive keeps of a state that Redis lost when it returned to an earlier one.

    Attributes:
        branch: its number, from 1 on.
        turns: how many.
        first_seq, last_seq: of the turns; 0 when there are none.
        compactions: how many commits.
    """

    branch: int
    turns: int
    first_seq: Seq
    last_seq: Seq
    compactions: int

    def __str__(self) -> str:
        """For a person."""
        which = f" (seq {self.first_seq} to {self.last_seq})" if self.turns else ""
        lost = (self.turns, "turn") if self.turns else (self.compactions, "compaction")
        verb = "is" if lost[0] == 1 else "are"
        kept = f"kept as branch {self.branch}"
        return f"{count(*lost)}{which} of a state that Redis lost {verb} {kept}"


class Trajectory(Value):
    """A session from its first turn to its last, complete whatever was compacted.

    Attributes:
        source: what the agent said the session is about (``metadata.source`` of its first turn).
        question: the text of the first user message.
        system_prompt: as it is now.
        hard_limit, soft_limit: of the session's policy, in tokens; 0 when only the archive has it.
        turns: by seq; those set aside by a rollback or ``clear`` are marked, not missing.
        final_answer: the text of the last assistant message that calls no tool, or None.
        compactions: by version.
        context: the messages the agent reads now.
        lost: what Redis lost and the archive keeps; no part of the session.
    """

    session: SessionId
    namespace: Namespace
    source: str | None = None
    question: str = ""
    system_prompt: str = ""
    hard_limit: int = 0
    soft_limit: int = 0
    turns: tuple[TrajectoryTurn, ...] = ()
    final_answer: str | None = None
    compactions: tuple[CommittedContext, ...] = ()
    context: tuple[JsonMessage, ...] = ()
    lost: tuple[LostTurns, ...] = ()

    def model_dump_json(self, **options: Any) -> str:
        """As of any model; half a surrogate pair, in metadata, becomes U+FFFD."""
        try:
            return super().model_dump_json(**options)
        except PydanticSerializationError:
            indent = options.pop("indent", None)
            fields = self.model_dump(mode="json", **options)
            text = json.dumps(fields, ensure_ascii=False, indent=indent)
            made: str = sendable(text)
            return made
