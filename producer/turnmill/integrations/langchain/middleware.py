"""What stands between a LangChain agent's state and its model."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import Runtime

from turnmill import InvalidInput, Policy
from turnmill.integrations.beside import Beside
from turnmill.integrations.calling import Client, arun, run
from turnmill.integrations.following import Follower, FollowerCounts
from turnmill.integrations.langchain.messages import restored, to_chat
from turnmill.integrations.originals import key

__all__ = ["ContextMiddleware"]

log: logging.Logger = logging.getLogger(__name__)

Session = str | Callable[[Runtime[Any]], str] | None


class ContextMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Shows the model a session's context in place of all messages; the state stays as it is.

    Args:
        client: a ``ContextClient`` for agents that are invoked in either way, an
            ``AsyncContextClient`` for those that are only awaited. Its ``timeout_s`` is the longest
            a call of Redis waits.
        session: the session's name, or a function of the run's ``Runtime`` that tells it. By
            default the ``thread_id`` of the run's config; an agent inside another agent or graph
            has sessions of its own beside.
        policy: given to a session when it is first seen here; None leaves what it has.

    If anything fails, the model gets the messages unchanged, ``counts`` says how often that
    happened, and the log names the type of the error. Only a run whose session nobody names raises
    ``InvalidInput``. Put it first in the list: what other middleware adds is not pushed then.
    """

    def __init__(
        self, client: Client, session: Session = None, *, policy: Policy | str | None = None
    ) -> None:
        super().__init__()
        self._client = client
        self._session = session
        self._follower = Follower(client, policy, "langchain")
        self._tools: tuple[list[Any], tuple[dict[str, Any], ...]] = ([], ())

    @property
    def counts(self) -> FollowerCounts:
        """What became of the model requests."""
        return self._follower.counts

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the session's context."""
        session = self._of(request.runtime, request.messages)
        try:
            messages = run(self._client, self._curated(session, request))
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            messages = self._unchanged(request, error)
        return handler(request.override(messages=messages))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the session's context."""
        session = self._of(request.runtime, request.messages)
        try:
            messages = await arun(self._client, self._curated(session, request))
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            messages = self._unchanged(request, error)
        return await handler(request.override(messages=messages))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Push the answer, so that workers can compact while nobody waits."""
        session = self._of(runtime, state["messages"])
        try:
            run(self._client, self._stored(session, state["messages"]))
        except Exception as error:  # noqa: BLE001 - the next model call pushes it
            _warn(error)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Push the answer, so that workers can compact while nobody waits."""
        session = self._of(runtime, state["messages"])
        try:
            await arun(self._client, self._stored(session, state["messages"]))
        except Exception as error:  # noqa: BLE001 - the next model call pushes it
            _warn(error)

    async def _curated(self, session: str, request: ModelRequest[Any]) -> list[AnyMessage]:
        chat = [to_chat(message) for message in request.messages]
        if not chat:
            return request.messages
        beside = Beside(request.system_prompt or "", self._schemas(request.tools))
        context = await self._follower.follow(session, chat, beside)
        messages = context.messages_for("chat")
        shown = messages[1:] if context.system_prompt else messages
        return restored(request.messages, chat, shown)

    def _schemas(self, tools: list[Any]) -> tuple[dict[str, Any], ...]:
        """The schemas of the tools; made once, while requests have the same ones."""
        known, schemas = self._tools
        if known != tools:
            schemas = tuple(map(convert_to_openai_tool, tools))
            self._tools = (list(tools), schemas)
        return schemas

    async def _stored(self, session: str, messages: Sequence[BaseMessage]) -> None:
        await self._follower.store(session, [to_chat(message) for message in messages])

    def _unchanged(self, request: ModelRequest[Any], error: Exception) -> list[AnyMessage]:
        self.counts.failed += 1
        _warn(error)
        return request.messages

    def _of(self, runtime: Runtime[Any], messages: Sequence[BaseMessage]) -> str:
        """The name of the session."""
        if self._session is not None:
            return self._session if isinstance(self._session, str) else self._session(runtime)
        info = runtime.execution_info
        if info is None or info.thread_id is None:
            raise InvalidInput(
                "session: none was given, and the run's config has no thread_id; give one of them"
            )
        *outer, _ = info.checkpoint_ns.split("|")
        if not outer:
            return str(info.thread_id)
        # An agent in a tool or a node has the thread of the outer one. What it was first told
        # tells it from others that run in the same place.
        place = ".".join(part.split(":")[0] for part in outer)
        first = hashlib.sha256(key(to_chat(messages[0])).encode()).hexdigest()[:12]
        return f"{info.thread_id}/{place}/{first}"


def _warn(error: Exception) -> None:
    # Only the type: the message of another library's error may quote the conversation.
    log.warning("messages left as they are: %s", type(error).__name__)
