"""The handle of one session: the vocabulary of a context manager, over a client.

A thin layer: every method is one or two calls of the client, with the session's name filled in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from turnmill.client.handle_results import (
    GROUND_WITHIN_S,
    describe,
    instructing,
    revoking,
    turn_result,
    with_memories,
)
from turnmill.contract.context import JsonMessage, Pushed
from turnmill.contract.errors import InvalidInput, Transient, TurnmillError, UnknownSession
from turnmill.contract.policy import Policy
from turnmill.contract.render import context_injection
from turnmill.contract.results import (
    Checkpoint,
    ContextInfo,
    Forgotten,
    GroundedContext,
    GroundedMemory,
    RollbackResult,
    SummarizationResult,
    TurnResult,
)
from turnmill.contract.rules import Rule
from turnmill.contract.turns import TurnLike
from turnmill.push.too_large import OnTooLarge
from turnmill.push.turn_builders import Image, interaction, step
from turnmill.read.context import Context
from turnmill.recall import NAME, NOT_NOW, answered, asked, chat_schema, quoted_turn

if TYPE_CHECKING:
    from turnmill.client._async.client import AsyncContextClient
    from turnmill.contract.tools import Tools
    from turnmill.contract.trajectory import Trajectory


class AsyncRecallTool:
    """Searches the session, then what the namespace remembers from elsewhere; quotes turns whole.

    It is a session's ``AsyncContextManager.recall_tool``.
    """

    def __init__(self, client: AsyncContextClient, session: str) -> None:
        self._client = client
        self._session = session

    @property
    def name(self) -> str:
        """What the model calls it by."""
        return NAME

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an item of ``tools``, as chat completions take it."""
        return chat_schema()

    async def handle(
        self,
        arguments: str | bytes | Mapping[str, Any] | None,
        *,
        max_chars: int = 6_000,
        timeout_s: float = 5.0,
    ) -> str:
        """The tool's result for a call's arguments, as JSON or decoded: at most so many characters.

        Says in words what is wrong with the arguments, and when nothing can be searched now: it
        raises for neither.
        """
        wanted = asked(arguments)
        if isinstance(wanted, str):
            return wanted
        if wanted.turn is not None:
            return await self._quoted(wanted.turn, wanted.part, max_chars, timeout_s)
        until = time.monotonic() + timeout_s
        others: tuple[GroundedMemory, ...] = ()
        try:
            # One more than wanted: the session's summary may be among them.
            own = await self._found(wanted.query, wanted.limit + 1, self._session, until)
            # What this session said is an answer, also without the rest.
            with suppress(TurnmillError):
                others = await self._found(wanted.query, wanted.limit + wanted.others, None, until)
        except TurnmillError:
            return NOT_NOW
        return answered(wanted, self._session, (*own, *others), max_chars)

    async def _quoted(self, seq: int, part: int, max_chars: int, timeout_s: float) -> str:
        try:
            found = await self._client.turn(self._session, seq, timeout_s=timeout_s)
        except (InvalidInput, UnknownSession) as error:
            return f"{NAME}: {error}"
        except TurnmillError:
            return NOT_NOW
        return quoted_turn(found, part, max_chars)

    async def _found(
        self, query: str, k: int, session: str | None, until: float
    ) -> tuple[GroundedMemory, ...]:
        left = max(until - time.monotonic(), 0.0)
        found = await self._client.ground(query, k, session=session, timeout_s=left)
        return found.memories


class AsyncContextManager:
    """One session of a client; made by ``AsyncContextClient.manager``."""

    def __init__(self, client: AsyncContextClient, session: str) -> None:
        self._client = client
        self._session = session

    async def set_system_prompt(self, text: str) -> None:
        """Set or change the system prompt; whether the rest still fits is decided at once.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room under the policy's hard limit.
        """
        await self._client.open(self._session, system_prompt=text)

    async def set_tools(self, tools: Tools) -> None:
        """Set or change the schemas of the agent's tools, which count as part of each request.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room under the policy's hard limit.
        """
        await self._client.open(self._session, tools=tools)

    async def set_policy(self, policy: Policy | str) -> None:
        """Change the policy, to one of one's own or one of the namespace's by name."""
        await self._client.open(self._session, policy)

    async def rules(self) -> tuple[Rule, ...]:
        """The user's rules in force, as ``AsyncContextClient.rules``."""
        return await self._client.rules(self._session)

    async def instruct(self, text: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn whose whole text is a rule.

        Raises:
            InvalidInput: not text, blank, or more than 1,000 characters.
        """
        return await self._client.push(self._session, instructing(text), turn_id=turn_id)

    async def revoke(self, rule: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn that ends the rule of this id; it leaves with the next compaction.

        Raises:
            InvalidInput: no rule of this id is in force.
        """
        turn = revoking(rule, await self.rules())
        return await self._client.push(self._session, turn, turn_id=turn_id)

    @property
    def session(self) -> str:
        """The session's name."""
        return self._session

    async def push(
        self,
        turn: TurnLike,
        *,
        turn_id: str | None = None,
        usage: object = None,
        on_too_large: OnTooLarge = "raise",
    ) -> Pushed:
        """Append a turn, as ``AsyncContextClient.push``."""
        return await self._client.push(
            self._session, turn, turn_id=turn_id, usage=usage, on_too_large=on_too_large
        )

    async def step(
        self,
        turn: TurnLike,
        *,
        turn_id: str | None = None,
        usage: object = None,
        on_too_large: OnTooLarge = "raise",
    ) -> Context:
        """Append a turn and return the context with it, as ``AsyncContextClient.step``."""
        return await self._client.step(
            self._session, turn, turn_id=turn_id, usage=usage, on_too_large=on_too_large
        )

    async def add_turn(
        self,
        *,
        image: Image | None = None,
        reasoning: str = "",
        action: str = "",
        region: Any = None,
        text: str | None = None,
        iteration: int | None = None,
        source: str | None = None,
    ) -> Pushed:
        """Append a step: a user message with the image, an assistant message with the rest.

        ``image`` is bytes, base64, a file's path, or an URL. ``text`` comes before the image:
        the question, in the first step. ``source`` is what the trajectory is about. Without
        reasoning and action there is no assistant message yet.

        Raises:
            InvalidTurn: the image cannot be read, or there is nothing; nothing was stored.
        """
        turn = step(
            image=image,
            reasoning=reasoning,
            action=action,
            region=region,
            text=text,
            iteration=iteration,
            source=source,
        )
        return await self.push(turn)

    async def add_interaction(self, user_query: str, assistant_response: str) -> Pushed:
        """Append a question with its answer, as one turn."""
        return await self.push(interaction(user_query, assistant_response))

    async def add_response(self, text: str, *, usage: object = None) -> Pushed:
        """Append the assistant's answer, with the ``usage`` reported for it."""
        return await self.push({"role": "assistant", "content": text}, usage=usage)

    async def process_turn(self, user_input: str, *, turn_id: str | None = None) -> TurnResult:
        """Append the user's input, grounded with memories by the policy, and say how things stand.

        Waits for no model, and for memories a second at most: they are a help, not a condition.
        With ``Policy.grounding_ratio`` they stand before the input, in the same turn.
        """
        policy, room = await self._policy()
        grounded = await self._grounded(user_input, policy)
        turn, used = with_memories(user_input, grounded, int(room * policy.grounding_ratio))
        pushed = await self._client.push(self._session, turn, turn_id=turn_id)
        return turn_result(pushed, used, await self.info())

    async def _grounded(self, query: str, policy: Policy) -> GroundedContext:
        if policy.grounding_memories:
            with suppress(Transient, InvalidInput):
                return await self.ground(
                    query, policy.grounding_memories, timeout_s=GROUND_WITHIN_S
                )
        return GroundedContext()

    async def _policy(self) -> tuple[Policy, int]:
        """The session's policy, and the tokens beside its system prompt."""
        with suppress(UnknownSession):
            found = await self.info()
            return found.policy, found.limits.room
        return Policy(), Policy().hard_limit

    async def read(self) -> Context:
        """The context as of now, as ``AsyncContextClient.read``."""
        return await self._client.read(self._session)

    async def messages(self, *, include_system: bool = True) -> list[JsonMessage]:
        """The context's messages, with or without the session's system prompt."""
        context = await self.read()
        is_first = bool(context.system_prompt) and context.dialect == "chat"
        return context.messages[1:] if is_first and not include_system else context.messages

    async def context_injection(self) -> str:
        """The summaries of past iterations as one text for a system prompt; ``""`` without any."""
        context = await self.read()
        return context_injection(context.events)

    async def info(self) -> ContextInfo:
        """The session in numbers."""
        return await self._client.info(self._session)

    async def describe(self) -> str:
        """The session in one line."""
        return describe(await self.info())

    async def is_empty(self) -> bool:
        """Whether there is no conversation: nothing was pushed, or it was cleared."""
        try:
            found = await self.info()
        except UnknownSession:
            return True
        return found.turns_in_log == 0 and found.usage.summary == 0

    async def estimated_tokens(self) -> int:
        """Tokens of the context: exact once workers have counted it, else ⌈characters / 3.5⌉."""
        found = await self.info()
        return found.estimated_tokens

    async def needs_summarization(self) -> bool:
        """Whether the context is estimated to be over its soft limit."""
        found = await self.info()
        return found.estimated_tokens > found.limits.soft

    async def quality_score(self) -> float:
        """The score of the last compaction, 0..1; 1 before the first."""
        found = await self.info()
        return 1.0 if found.quality is None else found.quality

    async def ground(
        self, query: str, k: int = 5, *, this_session: bool = False, timeout_s: float = 5.0
    ) -> GroundedContext:
        """What the namespace, or this session, remembers, as ``AsyncContextClient.ground``."""
        session = self._session if this_session else None
        return await self._client.ground(query, k, session=session, timeout_s=timeout_s)

    @property
    def recall_tool(self) -> AsyncRecallTool:
        """A tool for the agent's own model, which looks up by it what left the context.

        With ``Policy.recall_tool`` receipts and summaries tell the model of it.
        """
        return AsyncRecallTool(self._client, self._session)

    async def remember(self, text: str, *, timeout_s: float = 5.0) -> str:
        """Have the namespace remember a text, as ``AsyncContextClient.remember``."""
        return await self._client.remember(text, timeout_s=timeout_s)

    async def trajectory(self, *, timeout_s: float = 30.0) -> Trajectory:
        """The whole session, as ``AsyncContextClient.trajectory``."""
        return await self._client.trajectory(self._session, timeout_s=timeout_s)

    async def transcript(self, *, timeout_s: float = 30.0) -> str:
        """The whole session as markdown."""
        from turnmill.client.transcript import markdown  # noqa: PLC0415 - few agents need it

        return markdown(await self.trajectory(timeout_s=timeout_s))

    @overload
    async def summarize(
        self, *, template: str = "", timeout_s: float = 60.0
    ) -> SummarizationResult: ...
    @overload
    async def summarize(
        self, *, template: str = "", wait: bool, timeout_s: float = 60.0
    ) -> SummarizationResult | None: ...
    async def summarize(
        self, *, template: str = "", wait: bool = True, timeout_s: float = 60.0
    ) -> SummarizationResult | None:
        """Summarize all but the newest turns now, as ``AsyncContextClient.summarize``."""
        return await self._client.summarize(
            self._session, template=template, wait=wait, timeout_s=timeout_s
        )

    async def checkpoint(self, message: str = "", *, name: str = "") -> str | None:
        """Remember the context as it is now, as ``AsyncContextClient.checkpoint``."""
        return await self._client.checkpoint(self._session, message, name=name)

    async def checkpoints(self) -> list[Checkpoint]:
        """What a rollback can restore, oldest first."""
        return await self._client.checkpoints(self._session)

    async def rollback(
        self, to: str | int | None = None, *, timeout_s: float = 10.0
    ) -> RollbackResult:
        """Restore a checkpoint or a version, as ``AsyncContextClient.rollback``."""
        return await self._client.rollback(self._session, to, timeout_s=timeout_s)

    async def fork(
        self, new_session: str, *, at: str | int | None = None, timeout_s: float = 10.0
    ) -> AsyncContextManager:
        """The handle of a new session that begins as this was, as ``AsyncContextClient.fork``."""
        await self._client.fork(self._session, new_session, at=at, timeout_s=timeout_s)
        return AsyncContextManager(self._client, new_session)

    async def rewind(self, *, at: str | int, timeout_s: float = 10.0) -> RollbackResult:
        """Go back to before a turn, as ``AsyncContextClient.rewind``."""
        return await self._client.rewind(self._session, at=at, timeout_s=timeout_s)

    async def clear(self) -> int:
        """Set the conversation aside and keep the system prompt, as ``clear`` of the client."""
        return await self._client.clear(self._session)

    async def forget(self) -> Forgotten:
        """Remove the session everywhere, as ``AsyncContextClient.forget``."""
        return await self._client.forget(self._session)
