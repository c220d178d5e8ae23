"""What stands between a pydantic-ai agent's history and its model."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from turnmill._async.client import AsyncContextClient
from turnmill.context import Context
from turnmill.contract.errors import UnknownSession
from turnmill.contract.policy import Policy
from turnmill.contract.turns import to_turn
from turnmill.integrations.beside import Beside, function
from turnmill.integrations.pydantic_ai.messages import Chat, to_chat
from turnmill.integrations.pydantic_ai.restoring import Restored, restore

__all__ = ["HistoryCounts", "HistoryProcessor", "history_processor"]

log: logging.Logger = logging.getLogger(__name__)

SESSIONS = 1024
"""Sessions whose pushed ids are remembered here; a forgotten one only costs a longer push."""


@dataclass(slots=True)
class HistoryCounts:
    """What became of the model requests.

    Attributes:
        curated: sent with the session's context.
        cached: of these, without asking Redis: the same history as before.
        pushed: messages pushed.
        failed: sent with the history as it was, because something failed.
        diverged: of these, because the history's newest message is not the session's newest.
    """

    curated: int = 0
    cached: int = 0
    pushed: int = 0
    failed: int = 0
    diverged: int = 0


@dataclass(slots=True)
class _Seen:
    """What this process knows of a session."""

    seqs: dict[str, int] = field(default_factory=dict)
    beside: Beside = Beside()  # noqa: RUF009 - it cannot change
    is_open: bool = False
    digest: str = ""
    restored: Restored = field(default_factory=list)


class Diverged(Exception):
    """The session has gone on without this history, or the history was rewound."""


def history_processor(
    client: AsyncContextClient,
    session: str | Callable[[Any], str],
    *,
    policy: Policy | str | None = None,
) -> HistoryProcessor:
    """A capability that sends a session's context to the model, in place of the whole history.

    Args:
        client: its ``timeout_s`` is the longest a request waits when Redis is down.
        session: the session's name, or a function of the run's ``deps`` that tells it.
        policy: given to a session when it is first seen here; None leaves what it has.

    ``Agent(model, capabilities=[history_processor(client, session="agent-7")])``. Give each run
    the whole history, as ``result.all_messages()`` returns it: it stays complete. A history that
    was edited or cut in front is another conversation and needs another session.
    """
    return HistoryProcessor(client, session, policy)


class HistoryProcessor(AbstractCapability[Any]):
    """From ``history_processor``. Never raises into the agent: it changes nothing on an error."""

    def __init__(
        self,
        client: AsyncContextClient,
        session: str | Callable[[Any], str],
        policy: Policy | str | None = None,
    ) -> None:
        self.counts: HistoryCounts = HistoryCounts()
        self._client = client
        self._session = session
        self._policy = policy
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a client cannot be written down."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Show the model the session's context; the agent's own history is left as it is."""
        parameters = request_context.model_request_parameters
        request_context.messages = await self.curate(
            request_context.messages,
            deps=ctx.deps,
            instructions="\n\n".join(part.content for part in parameters.instruction_parts or ()),
            tools=(*parameters.function_tools, *parameters.output_tools),
        )
        return request_context

    async def curate(
        self,
        history: Sequence[ModelMessage],
        *,
        deps: Any = None,
        instructions: str = "",
        tools: Sequence[ToolDefinition] = (),
    ) -> list[ModelMessage]:
        """Push what is new in the history, and return the session's context in its place.

        Instructions and tools count: the limit is of the whole request.
        The same history again is answered from memory. If anything fails, returns the history.
        """
        try:
            session = self._session if isinstance(self._session, str) else self._session(deps)
            beside = Beside(instructions, tuple(map(_schema, tools)))
            restored = await self._restored(session, history, beside)
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            self.counts.failed += 1
            self.counts.diverged += isinstance(error, Diverged)
            # Only the type: the message of another library's error may quote the conversation.
            log.warning("history left as it is: %s", type(error).__name__)
            return list(history)
        return [history[item] if isinstance(item, int) else item for item in restored]

    async def _restored(
        self, session: str, history: Sequence[ModelMessage], beside: Beside
    ) -> Restored:
        chat = to_chat(history)
        if not chat.messages or not isinstance(history[-1], ModelRequest):
            return list(range(len(history)))
        # The same in every process that has the history, so that nothing is pushed twice.
        ids = [f"pydantic-ai-{at}-{word[:32]}" for at, word in enumerate(chat.keys)]
        prompt = "\n\n".join([*(part.content for part in chat.prompts), beside.prompt]).strip()
        beside = beside._replace(prompt=prompt)
        words = [*ids, str(len(history)), json.dumps(beside)]
        digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
        seen = self._of(session)
        if seen.digest == digest:
            self.counts.cached += 1
        else:
            try:
                context = await self._exchange(session, seen, chat, ids, beside)
            except Exception:
                self._seen.pop(session, None)  # begin anew: pushing again stores nothing twice
                raise
            messages = (
                context.messages[1:] if prompt and context.system_prompt else context.messages
            )
            seen.restored, seen.digest = restore(history, chat, messages), digest
        self.counts.curated += 1
        return seen.restored

    async def _exchange(
        self, session: str, seen: _Seen, chat: Chat, ids: Sequence[str], beside: Beside
    ) -> Context:
        """Push what this process has not pushed yet, and read."""
        if seen.seqs and await self._last_seq(session) < max(seen.seqs.values()):
            # Expired, forgotten or lost with Redis: without its past the newest turn is no context.
            seen.seqs, seen.beside, seen.is_open = {}, Beside(), False
        if beside != seen.beside or (self._policy is not None and not seen.is_open):
            policy = None if seen.is_open else self._policy
            await self._client.open(session, policy, **beside.since(seen.beside))
            seen.beside, seen.is_open = beside, True
        new = [at for at, turn_id in enumerate(ids) if turn_id not in seen.seqs]
        turns = [to_turn(chat.messages[at], turn_id=ids[at]) for at in new]
        done, context = await self._client.step_many(session, turns)
        for pushed in done:
            seen.seqs[pushed.turn_id] = pushed.seq
            self.counts.pushed += not pushed.duplicate
        if context.last_seq != seen.seqs[ids[-1]]:
            raise Diverged
        return context

    async def _last_seq(self, session: str) -> int:
        with suppress(UnknownSession):
            return (await self._client.info(session)).last_seq
        return 0

    def _of(self, session: str) -> _Seen:
        seen = self._seen.setdefault(session, _Seen())
        self._seen.move_to_end(session)
        while len(self._seen) > SESSIONS:
            self._seen.popitem(last=False)
        return seen


def _schema(tool: ToolDefinition) -> dict[str, Any]:
    return function(tool.name, tool.description or "", tool.parameters_json_schema)
