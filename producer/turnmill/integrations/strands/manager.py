"""What keeps a Strands agent's messages within the limits of a session's policy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import BeforeModelCallEvent, HookRegistry
from strands.hooks.events import AgentInitializedEvent
from strands.tools.registry import ToolRegistry
from strands.types.content import Message
from strands.types.exceptions import ContextWindowOverflowException

from turnmill import Context, ContextClient, Policy, TurnmillError
from turnmill.integrations.beside import Beside, function
from turnmill.integrations.originals import key, originals
from turnmill.integrations.strands.exchange import Diverged, Exchange, ManagementCounts
from turnmill.integrations.strands.messages import from_chat, is_made, name_all, to_chat

__all__ = ["ManagementCounts", "TurnmillConversationManager"]

log: logging.Logger = logging.getLogger(__name__)

_AFTER_OVERFLOW = 0.8
"""The new limit of a context whose model found it too long, as a share of its tokens."""


class TurnmillConversationManager(ConversationManager):
    """Makes an agent's messages the context of a session, before each call of its model.

    Args:
        client: its ``timeout_s`` is the longest a call of Redis makes the agent wait.
        session: the session's name, or a function of the agent that tells it.
        policy: given to the session when it is first seen here; None leaves what it has.

    ``Agent(conversation_manager=TurnmillConversationManager(client, "agent-7"))``; one for each
    agent. Never raises into the agent but for an overflow: on an error nothing is changed.
    """

    def __init__(
        self,
        client: ContextClient,
        session: str | Callable[[Agent], str],
        *,
        policy: Policy | str | None = None,
    ) -> None:
        super().__init__()
        self.counts: ManagementCounts = ManagementCounts()
        self._client = client
        self._session = session
        self._lead: list[Message] = []  # what stands before the messages not counted as removed
        self._shown_tokens = 0
        self._agent: Agent | None = None
        self._exchange = Exchange(client, policy, self.counts)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Have the messages managed before each call of the model."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, _name_first)
        registry.add_callback(BeforeModelCallEvent, self._before_model_call)

    async def _before_model_call(self, event: BeforeModelCallEvent) -> None:
        await asyncio.to_thread(self.apply_management, event.agent)

    def get_state(self) -> dict[str, Any]:
        """What a session manager of Strands stores."""
        return {**super().get_state(), "lead": list(self._lead), "rewinds": self._exchange.rewinds}

    def restore_from_session(self, state: dict[str, Any]) -> list[Message] | None:
        """Take up the state again; returns what stands for the removed messages.

        Raises:
            ValueError: it is the state of another conversation manager.
        """
        super().restore_from_session(state)
        self._lead, self._exchange.rewinds = list(state["lead"]), state["rewinds"]
        self._exchange.begin_anew()
        return list(self._lead) or None

    def apply_management(self, agent: Agent, **kwargs: Any) -> None:
        """Push what is new in ``agent.messages``, and make them the session's context, in place.

        A message that the context shows word for word stays the object it was.
        """
        del kwargs
        self._managed(agent)

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: Any) -> None:
        """As ``apply_management``; after an overflow, with a lower limit for the session.

        Raises:
            Exception: ``e``, when Redis cannot be asked.
            ContextWindowOverflowException: the context cannot become smaller.
        """
        del kwargs
        refused = self._shown_tokens
        context = self._managed(agent)
        if e is None:
            return
        if context is not None and context.tokens >= refused:
            context = self._lowered(agent, context)
        if context is None:
            raise e
        if context.tokens >= refused:
            raise ContextWindowOverflowException("the context cannot become smaller") from e

    def _lowered(self, agent: Agent, context: Context) -> Context | None:
        """The context after the session's limit was lowered: a read keeps to it at once."""
        try:
            policy = self._client.info(context.session).policy
            most = int(context.tokens * _AFTER_OVERFLOW) + policy.reserved_tokens
            lower = Policy(**{**policy.model_dump(), "max_tokens": min(most, policy.max_tokens)})
            self._client.open(context.session, lower)
        except TurnmillError:
            return context
        self.counts.lowered += 1
        return self._managed(agent)

    def _managed(self, agent: Agent) -> Context | None:
        """The context that the agent's messages are now; None when they were left as they were."""
        if agent is not self._agent:
            self._agent = agent
            self._exchange.begin_anew()
        try:
            session = self._session if isinstance(self._session, str) else self._session(agent)
            context = self._exchange.of(session, agent.messages, _beside(agent))
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            self._exchange.begin_anew()
            self.counts.failed += 1
            self.counts.diverged += isinstance(error, Diverged)
            # Only the type: the message of another library's error may quote the conversation.
            log.warning("messages left as they are: %s", type(error).__name__)
            return None
        if context is not None:
            self.counts.managed += 1
            self._shown_tokens = context.tokens
            self._show(agent.messages, context)
        return context

    def _show(self, messages: list[Message], context: Context) -> None:
        """Make the messages those of the context, and count those that left."""
        owned = [(at, key(m)) for at, each in enumerate(messages) for m in to_chat(each)]
        shown = context.messages_for("chat")
        has_prompt = bool(context.system_prompt) and shown[0]["role"] == "system"
        found = originals([word for _, word in owned], [at for at, _ in owned], shown[has_prompt:])
        if owned:
            found += range(owned[-1][0] + 1, len(messages))
        new: list[Message] = []
        for _, run in groupby(found, key=lambda item: isinstance(item, int)):
            items = list(run)
            new += [messages[at] for at in items if isinstance(at, int)]
            new += from_chat(item for item in items if not isinstance(item, int))
        self._count(messages, new)
        messages[:] = new
        self._exchange.showed(new)

    def _count(self, old: Sequence[Message], new: Sequence[Message]) -> None:
        """Count the removed: all up to the newest that is no longer as it was.

        Strands stores the conversation message by message and restores it from this count on.
        """
        counted = {message["tracking_id"] for message in self._lead}
        own = [m for m in old if not is_made(m) and m["tracking_id"] not in counted]
        places = {id(message): at for at, message in enumerate(new)}
        gone = max((at + 1 for at, m in enumerate(own) if id(m) not in places), default=0)
        self.removed_message_count += gone
        self._lead = list(new[: places[id(own[gone])] if gone < len(own) else len(new)])


def _beside(agent: Agent) -> Beside:
    registry = getattr(agent, "tool_registry", None)
    specs = registry.get_all_tool_specs() if isinstance(registry, ToolRegistry) else ()
    tools = [
        function(spec["name"], spec["description"], dict(spec["inputSchema"]).get("json"))
        for spec in specs
    ]
    return Beside(agent.system_prompt or "", tuple(tools))


def _name_first(event: AgentInitializedEvent) -> None:
    name_all(event.agent.messages)
