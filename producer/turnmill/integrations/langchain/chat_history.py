"""A chat history whose messages are a session's context."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from turnmill import Policy, UnknownSession
from turnmill.integrations.calling import Client, answer, arun, run
from turnmill.integrations.langchain.messages import restored, to_chat
from turnmill.integrations.originals import key

__all__ = ["ContextChatMessageHistory"]


class ContextChatMessageHistory(BaseChatMessageHistory):
    """Keeps messages in a session; what it returns is the context, within the policy's limits.

    Args:
        client: a ``ContextClient`` serves synchronous and asynchronous methods, an
            ``AsyncContextClient`` the asynchronous ones.
        session_id: the session's name.
        policy: given to the session with the first messages added here; None leaves what it has.

    Messages have the fields of chat messages; reasoning, metadata and artifacts are not kept.
    The methods raise what the client's do, such as ``StoreUnavailable``.
    """

    def __init__(
        self, client: Client, session_id: str, *, policy: Policy | str | None = None
    ) -> None:
        self.session_id: str = session_id
        self._client = client
        self._policy = policy

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The context, without the session's system prompt; empty for an unknown session."""
        return run(self._client, self._read())

    async def aget_messages(self) -> list[BaseMessage]:
        """As ``messages``."""
        return await arun(self._client, self._read())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages; one with an id that was added before is not added again."""
        run(self._client, self._add(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As ``add_messages``."""
        await arun(self._client, self._add(messages))

    def clear(self) -> None:
        """Set the messages aside; the archive keeps them."""
        run(self._client, self._clear())

    async def aclear(self) -> None:
        """As ``clear``."""
        await arun(self._client, self._clear())

    async def _read(self) -> list[BaseMessage]:
        try:
            context = await answer(self._client.read(self.session_id))
        except UnknownSession:
            return []
        messages = context.messages_for("chat")
        return [*restored([], [], messages[1:] if context.system_prompt else messages)]

    async def _add(self, messages: Sequence[BaseMessage]) -> None:
        if self._policy is not None:
            await answer(self._client.open(self.session_id, self._policy))
            self._policy = None
        turns = []
        for message in messages:
            chat = to_chat(message)
            turn = {"messages": [chat]}
            # Two answers may have one id, if a model numbers them anew; their content tells.
            own = {"turn_id": f"langchain-{message.id}-{key(chat)[:32]}"} if message.id else {}
            turns.append((self.session_id, {**turn, **own}))
        await answer(self._client.push_many(turns))

    async def _clear(self) -> None:
        with suppress(UnknownSession):
            await answer(self._client.clear(self.session_id))
