"""What stands between ADK's events and the model."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from turnmill.integrations.google_adk.messages import to_chat
from turnmill.integrations.google_adk.restoring import is_legal, restore
from turnmill.integrations.google_adk.sessions import TurnmillSessionService, owner_of
from turnmill.integrations.google_adk.store import Owner

__all__ = ["ContextCounts", "ContextPlugin"]

log: logging.Logger = logging.getLogger(__name__)


SESSIONS = 1024
"""Sessions whose prompts are remembered here; a forgotten one only costs a call."""


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
        self._prompts: dict[str, int] = {}

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
        await self._tell_prompt(owner, request)
        context = await self._service.client.read(owner.name)
        seq, event_id = await self._service.store.newest(owner)
        newest = next((each.id for each in reversed(session.events) if to_chat(each)), event_id)
        if context.last_seq != seq or newest != event_id:
            raise Diverged
        if not context.watermark and context.projection is None:
            self.counts.whole += 1
            return request.contents
        agent = invocation.agent.name if invocation.agent else ""
        said = context.messages_for("chat")[1 if context.system_prompt else 0 :]
        contents = restore(request.contents, session.events, said, agent)
        if not is_legal(contents):
            raise Illegal
        self.counts.curated += 1
        return contents

    async def _tell_prompt(self, owner: Owner, request: LlmRequest) -> None:
        """Have the instructions counted against the limit: of all agents, the longest."""
        prompt = request.config.system_instruction
        if isinstance(prompt, str) and len(prompt) > self._prompts.get(owner.name, 0):
            await self._service.client.open(owner.name, system_prompt=prompt)
            if len(self._prompts) >= SESSIONS:
                self._prompts.clear()
            self._prompts[owner.name] = len(prompt)


def _is_apart(invocation: InvocationContext, request: LlmRequest) -> bool:
    asks_for_none = getattr(invocation.agent, "include_contents", "default") != "default"
    is_told_elsewhere = bool(getattr(request, "previous_interaction_id", None))
    scope = getattr(invocation, "isolation_scope", None)
    return bool(asks_for_none or is_told_elsewhere or invocation.branch or scope)
