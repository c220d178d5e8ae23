"""What stands between ADK's events and the model."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from turnmill.contract.tools import bound_tools, tools_body
from turnmill.integrations.google_adk.beside import fence_tokens, more_fences, tools_of
from turnmill.integrations.google_adk.messages import to_chat
from turnmill.integrations.google_adk.restoring import is_legal, restore
from turnmill.integrations.google_adk.sessions import TurnmillSessionService, owner_of
from turnmill.integrations.google_adk.store import Owner

__all__ = ["ContextCounts", "ContextPlugin"]

log: logging.Logger = logging.getLogger(__name__)


SESSIONS = 1024
"""Sessions whose prompts and tools are remembered here; a forgotten one only costs a call."""

_Known = TypeVar("_Known")


class _Told(NamedTuple):
    """How long the prompt is that a session was told of, and how many tokens its tools are."""

    prompt: int = 0
    tools: int = 0


@dataclass(slots=True)
class ContextCounts:
    """What became of the model requests.

    Attributes:
        whole: sent as they were, because nothing had to be left out.
        curated: sent with the session's context.
        failed: sent as they were, because something failed.
        diverged: of these, because the session's newest turn is not the newest event.
    """

    whole: int = 0
    curated: int = 0
    failed: int = 0
    diverged: int = 0


class Diverged(Exception):
    """The session has gone on without this run's events."""


class Illegal(Exception):
    """What was made of the context has calls without results, or results without calls."""


class ContextPlugin(BasePlugin):
    """Sends the session's context to the model, in place of all its events.

    ``App(name=…, root_agent=…, plugins=[ContextPlugin(service)])``. It never raises into the agent:
    it changes nothing on an error. Agents that ask for no history, and those on a branch or with a
    task of their own, get what ADK gives them.
    """

    def __init__(self, service: TurnmillSessionService, name: str = "turnmill_context") -> None:
        super().__init__(name)
        self.counts: ContextCounts = ContextCounts()
        self._service = service
        self._told: dict[str, _Told] = {}
        self._fences: dict[str, int] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Replace the request's contents; the session is left as it is."""
        invocation = callback_context._invocation_context  # noqa: SLF001 - ADK shows the branch nowhere else
        if _is_apart(invocation, llm_request):
            return None
        try:
            llm_request.contents = await self._curated(invocation, llm_request)
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            self.counts.failed += 1
            self.counts.diverged += isinstance(error, Diverged)
            # Only the type: the message of another library's error may quote the conversation.
            log.warning("contents left as they are: %s", type(error).__name__)
        return None

    async def _curated(
        self, invocation: InvocationContext, request: LlmRequest
    ) -> list[types.Content]:
        session = invocation.session
        owner = owner_of(session)
        await self._tell(owner, request)
        agent = invocation.agent.name if invocation.agent else ""
        key = f"{owner.name} {agent}"
        fences = self._fences.pop(key, 0)
        while True:
            context = await self._service.client.read(owner.name, beside=fences)
            seq, event_id = await self._service.store.newest(owner)
            newest = next((each.id for each in reversed(session.events) if to_chat(each)), event_id)
            if context.last_seq != seq or newest != event_id:
                raise Diverged
            is_whole = not context.watermark and context.projection is None
            contents = request.contents
            if not is_whole:
                said = context.messages_for("chat")[1 if context.system_prompt else 0 :]
                contents = restore(request.contents, session.events, said, agent)
            # Only as this agent sees them is it known what is fenced; a smaller context has less.
            if (found := fence_tokens(contents)) <= fences:
                break
            fences = more_fences(fences, found)
        _keep(self._fences, key, found)
        if not is_whole and not is_legal(contents):
            raise Illegal
        self.counts.whole += is_whole
        self.counts.curated += not is_whole
        return contents

    async def _tell(self, owner: Owner, request: LlmRequest) -> None:
        """Have instructions and tools counted against the limit: of all agents, the longest."""
        told = self._told.get(owner.name, _Told())
        prompt, tools = request.config.system_instruction, tools_of(request.config)
        found = _Told(len(prompt) if isinstance(prompt, str) else 0, bound_tools(tools_body(tools)))
        longest = _Told(max(told.prompt, found.prompt), max(told.tools, found.tools))
        if longest == told:
            return
        await self._service.client.open(
            owner.name,
            system_prompt=prompt
            if isinstance(prompt, str) and found.prompt > told.prompt
            else None,
            tools=tools if found.tools > told.tools else None,
        )
        _keep(self._told, owner.name, longest)


def _is_apart(invocation: InvocationContext, request: LlmRequest) -> bool:
    asks_for_none = getattr(invocation.agent, "include_contents", "default") != "default"
    is_told_elsewhere = bool(getattr(request, "previous_interaction_id", None))
    scope = getattr(invocation, "isolation_scope", None)
    return bool(asks_for_none or is_told_elsewhere or invocation.branch or scope)


def _keep(known: dict[str, _Known], key: str, value: _Known) -> None:
    if len(known) >= SESSIONS:
        known.clear()
    known[key] = value
