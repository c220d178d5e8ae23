"""What keeps the history of agent-framework's agents in sessions."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    AgentSession,
    FunctionTool,
    HistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from turnmill import AsyncContextClient, Policy, Transient, TurnmillError, UnknownSession
from turnmill.contract.context import JsonMessage
from turnmill.integrations.agent_framework.messages import from_chat, to_chat
from turnmill.integrations.beside import Beside

__all__ = ["HistoryCounts", "TurnmillHistoryProvider"]

log: logging.Logger = logging.getLogger(__name__)

SESSIONS = 1024
"""Sessions whose newest context is kept here, for the time that Redis is away."""

_UNSAVED = "unsaved"
"""In the provider's state: turns that Redis has not taken yet."""


@dataclass(slots=True)
class HistoryCounts:
    """What became of the history.

    Attributes:
        loaded: times a context was read.
        pushed: messages pushed.
        failed: times something failed: what was known here was loaded, or messages wait unsaved.
    """

    loaded: int = 0
    pushed: int = 0
    failed: int = 0


class TurnmillHistoryProvider(HistoryProvider):
    """Loads a session's context as the history, and pushes what was said.

    Args:
        client: its ``timeout_s`` is the longest a call of Redis makes the agent wait.
        source_id: of the messages it loads.
        policy: given to a session when it is first seen here; None leaves what it has.
        session: from the id of an ``AgentSession`` to the session's name; by default the same.
        flags: what to load and to store, as ``HistoryProvider`` has them.

    With ``require_per_service_call_history_persistence=True`` the history is loaded before each
    call of the model, so also a long loop over tools stays within the limit. What was not pushed
    yet is added to it: ``Policy(reserved_tokens=…)`` keeps room for that.
    """

    def __init__(
        self,
        client: AsyncContextClient,
        source_id: str = "turnmill",
        *,
        policy: Policy | str | None = None,
        session: Callable[[str], str] = str,
        **flags: Any,
    ) -> None:
        super().__init__(source_id, **flags)
        self.counts: HistoryCounts = HistoryCounts()
        self._client = client
        self._policy = policy
        self._session = session
        self._beside: OrderedDict[str, Beside] = OrderedDict()
        self._known: OrderedDict[str, list[Message]] = OrderedDict()

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Load the history; the agent's instructions and tools are counted as the session's."""
        try:
            beside = Beside(_prompt(agent), _tools(agent, context))
            await self._open(self._name(context.session_id), beside)
        except TurnmillError as error:
            self._failed(error)
        await super().before_run(agent=agent, session=session, context=context, state=state)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The session's context; on an error what was last known here, and what is unsaved."""
        del kwargs
        name = self._name(session_id)
        try:
            await self._push(name, state)
            context = await self._client.read(name)
        except UnknownSession:
            return []
        except TurnmillError as error:
            self._failed(error)
            return [*self._known.get(name, ()), *_messages(_unsaved(state))]
        self.counts.loaded += 1
        shown = context.messages[bool(context.system_prompt) and context.dialect == "chat" :]
        _keep(self._known, name, from_chat(shown))
        return list(self._known[name])

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Push the messages, one turn each; while Redis is away they wait in ``state``.

        Raises:
            Transient: Redis is away, and there is no state.
            InvalidTurn, TurnTooLarge: a message cannot be stored.
        """
        del kwargs
        if not messages:
            return
        turns = [_turn(message) for message in messages]
        if state is None:
            await self._push(self._name(session_id), {_UNSAVED: turns})
            return
        state[_UNSAVED] = [*_unsaved(state), *turns]
        try:
            await self._push(self._name(session_id), state)
        except Transient as error:
            self._failed(error)
        except TurnmillError:
            del state[_UNSAVED]  # or it would stand in the way of all that follow
            raise

    async def clear(self, session_id: str | None) -> None:
        """Set the conversation aside; the archive keeps it, marked."""
        name = self._name(session_id)
        self._known.pop(name, None)
        try:
            await self._client.clear(name)
        except UnknownSession:
            return

    async def _open(self, name: str, beside: Beside) -> None:
        policy = self._policy if name not in self._beside else None
        told = self._beside.get(name, Beside())
        if policy is not None or beside != told:
            await self._client.open(name, policy, **beside.since(told))
        _keep(self._beside, name, beside)

    async def _push(self, name: str, state: dict[str, Any] | None) -> None:
        """Push what is unsaved: a turn that was stored already is stored no second time."""
        if turns := _unsaved(state):
            await self._open(name, self._beside.get(name, Beside()))
            done = await self._client.push_many((name, turn) for turn in turns)
            self.counts.pushed += sum(not pushed.duplicate for pushed in done)
            if name in self._known:
                self._known[name] += _messages(turns)
        if state:
            state.pop(_UNSAVED, None)

    def _name(self, session_id: str | None) -> str:
        return self._session(session_id or "default")

    def _failed(self, error: Exception) -> None:
        self.counts.failed += 1
        # Only the type: the message of another library's error may quote the conversation.
        log.warning("history not stored or not loaded: %s", type(error).__name__)


def _prompt(agent: SupportsAgentRun) -> str:
    match getattr(agent, "default_options", None):
        case {"instructions": str(said)}:
            return said
        case {"instructions": [*said]}:
            return "\n".join(str(each) for each in said)
    return ""


def _tools(agent: SupportsAgentRun, context: SessionContext) -> tuple[dict[str, Any], ...]:
    """The schemas of the agent's functions, of connected MCP servers', and of other providers'."""
    options = getattr(agent, "default_options", None) or {}
    servers = [each for each in getattr(agent, "mcp_tools", ()) if each.is_connected]
    offered = [each for server in servers for each in server.functions]
    tools = [*(options.get("tools") or ()), *context.tools, *offered]
    return tuple(each.to_json_schema_spec() for each in tools if isinstance(each, FunctionTool))


def _turn(message: Message) -> JsonMessage:
    return {"turn_id": f"agent-framework-{uuid.uuid4().hex}", "messages": to_chat(message)}


def _unsaved(state: dict[str, Any] | None) -> list[JsonMessage]:
    return list((state or {}).get(_UNSAVED, ()))


def _messages(turns: Sequence[JsonMessage]) -> list[Message]:
    return from_chat([message for turn in turns for message in turn["messages"]])


def _keep(known: OrderedDict[str, Any], name: str, value: object) -> None:
    known[name] = value
    known.move_to_end(name)
    while len(known) > SESSIONS:
        known.popitem(last=False)
