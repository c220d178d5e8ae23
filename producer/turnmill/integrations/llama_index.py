"""A memory for LlamaIndex agents and chat engines; needs the extra ``turnmill[llama-index]``."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.agent.workflow.agent_context import AgentContext
from llama_index.core.base.llms.types import (
    ChatMessage,
    ContentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from pydantic import BaseModel, Field, PrivateAttr

from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidInput, Transient, UnknownSession
from turnmill.contract.marks import FEEDBACK
from turnmill.contract.policy import Policy
from turnmill.integrations.shared import (
    NO_ID,
    Client,
    answer,
    arun,
    as_function,
    call,
    image,
    joined,
    key,
    originals,
    parsed,
    run,
)

__all__ = ["ContextFunctionAgent", "ContextMemory"]


_ROLES: Mapping[str, str] = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
_URLS = ("http://", "https://", "file:", "data:image/")
_CALL_ID = "tool_call_id"
_CALLS = "tool_calls"


def to_chat(message: ChatMessage) -> JsonMessage:
    """The message in chat's shape.

    Left out: thinking, cache points, all other fields of ``additional_kwargs``. Audio, video,
    documents and citations become a line of text.
    """
    role = _ROLES.get(message.role.value, message.role.value)
    parts = [part for block in message.blocks for part in _parts(block)]
    found: JsonMessage = {"role": role, "content": joined(parts)}
    if role == "tool" and _CALL_ID in message.additional_kwargs:
        found[_CALL_ID] = message.additional_kwargs[_CALL_ID] or NO_ID
    elif role == "tool":
        found |= {"role": "user", "name": FEEDBACK}  # of a tool, but of no call
    elif role == "assistant":
        found["content"] = "".join(part.get("text", "") for part in parts)
        if calls := _calls(message):
            found |= {"content": found["content"] or None, _CALLS: calls}
    return found


def _parts(block: ContentBlock) -> list[JsonMessage]:
    match block:
        case TextBlock():
            return [{"type": "text", "text": block.text}]
        case ImageBlock():
            return [_image(block)]
        case ThinkingBlock() | ToolCallBlock():
            return []
        case _ if block.block_type == "cache":
            return []
        case _:
            return [{"type": "text", "text": f"[{block.block_type}, not kept]"}]


def _image(block: ImageBlock) -> JsonMessage:
    url = str(block.url) if block.url else block.inline_url()
    if not url.startswith(_URLS):
        return {"type": "text", "text": "[image, not kept]"}
    return image(url, block.detail or None)


def _calls(message: ChatMessage) -> list[JsonMessage]:
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not blocks:
        # As an OpenAI client gave them.
        given = message.additional_kwargs.get(_CALLS) or ()
        plain = [
            each.model_dump(exclude_none=True) if isinstance(each, BaseModel) else each
            for each in given
        ]
        return [call(p["id"], p["function"]["name"], p["function"]["arguments"]) for p in plain]
    return [call(block.tool_call_id, block.tool_name, _json(block.tool_kwargs)) for block in blocks]


def _json(arguments: dict[str, Any] | str) -> str:
    is_text = isinstance(arguments, str)
    return str(arguments) if is_text else json.dumps(arguments, ensure_ascii=False)


def from_chat(message: JsonMessage, *, is_front: bool) -> ChatMessage:
    """The chat message made anew; system messages are the user's where others stand before them."""
    role, content = message["role"], message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks: list[ContentBlock] = [_block(part) for part in parts if part.get("text") != ""]
    blocks += _call_blocks(message.get(_CALLS) or ())
    more = {_CALL_ID: message[_CALL_ID]} if _CALL_ID in message else {}
    if role in ("system", "developer") and not is_front:
        role = "user"
    return ChatMessage(role=MessageRole(role), blocks=blocks, additional_kwargs=more)


def _block(part: JsonMessage) -> ContentBlock:
    if part["type"] != "image_url":
        return TextBlock(text=str(part.get("text") or ""))
    shown = part["image_url"]
    return ImageBlock(url=shown["url"], detail=shown.get("detail"))


def _call_blocks(calls: Iterable[JsonMessage]) -> list[ToolCallBlock]:
    return [
        ToolCallBlock(
            tool_call_id=each["id"],
            tool_name=each["function"]["name"],
            tool_kwargs=_arguments(each["function"]["arguments"]),
        )
        for each in map(as_function, calls)
    ]


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        found = parsed(text)
    except ValueError:  # shortened
        return text
    return found if isinstance(found, dict) else text


log: logging.Logger = logging.getLogger(__name__)

_Told = tuple[ChatMessage, JsonMessage]
"""A message, and the same in chat's shape."""


class ContextMemory(BaseMemory):
    """Keeps messages in a session; ``get`` returns the context, within the policy's limits.

    ``FunctionAgent(…).run(text, memory=ContextMemory.from_defaults("agent-7", client=client))``.
    What is serialized is the session's name: call ``connect`` before a workflow's state is read.

    While Redis is down, ``get`` returns the messages known here, those put meanwhile wait, and
    ``failed`` counts it. ``get_all``, ``set`` and ``reset`` raise what the client's methods do.
    """

    session_id: str = Field(description="The session's name.")
    _default: ClassVar[Client | None] = None
    _client: Client | None = PrivateAttr(default=None)
    _policy: Policy | str | None = PrivateAttr(default=None)
    _failed: int = PrivateAttr(default=0)
    _tail: list[_Told] = PrivateAttr(default_factory=list)  # shown last, and put since
    _unsent: list[tuple[str, _Told]] = PrivateAttr(default_factory=list)
    _known: list[str] | None = PrivateAttr(default=None)  # keys of all that was put, if all is
    _seq: int = PrivateAttr(default=0)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return "TurnmillContextMemory"

    @classmethod
    def from_defaults(
        cls,
        session_id: str = "",
        *,
        client: Client | None = None,
        policy: Policy | str | None = None,
        chat_history: list[ChatMessage] | None = None,
        **_: Any,
    ) -> Self:
        """The memory of a session.

        Args:
            session_id: its name; by default a new one.
            client: a ``ContextClient`` serves all methods, an ``AsyncContextClient`` those that are
                awaited.
            policy: given to the session with the first messages; None leaves what it has.
            chat_history: as ``set``.
        """
        made = cls(session_id=session_id or f"llama-index-{uuid.uuid4().hex}")
        made._client, made._policy = client, policy
        if chat_history:
            made.set(chat_history)
        return made

    @classmethod
    def connect(cls, client: Client | None) -> None:
        """Give the client to all memories that have none: a workflow's state keeps only names."""
        cls._default = client

    @property
    def failed(self) -> int:
        """How often Redis could not be asked."""
        return self._failed

    def get(self, input: str | None = None, **_: Any) -> list[ChatMessage]:  # noqa: A002
        """The context: summary and newest messages, those of this process as they were put."""
        del input
        return run(self._to, self._get())

    async def aget(self, input: str | None = None, **_: Any) -> list[ChatMessage]:  # noqa: A002
        """As ``get``."""
        del input
        return await arun(self._to, self._get())

    def get_all(self) -> list[ChatMessage]:
        """All messages, whatever was compacted; a worker answers."""
        return run(self._to, self._get_all())

    async def aget_all(self) -> list[ChatMessage]:
        """As ``get_all``."""
        return await arun(self._to, self._get_all())

    def put(self, message: ChatMessage) -> None:
        """Append a message."""
        run(self._to, self._put([message]))

    async def aput(self, message: ChatMessage) -> None:
        """Append a message."""
        await arun(self._to, self._put([message]))

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages."""
        run(self._to, self._put(messages))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages."""
        await arun(self._to, self._put(messages))

    def set(self, messages: list[ChatMessage]) -> None:
        """Make these the messages: append what is new, or set all others aside first."""
        run(self._to, self._set(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """As ``set``."""
        await arun(self._to, self._set(messages))

    def reset(self) -> None:
        """Set all messages aside; the archive keeps them."""
        run(self._to, self._reset())

    async def areset(self) -> None:
        """As ``reset``."""
        await arun(self._to, self._reset())

    @property
    def _to(self) -> Client:
        client = self._client or self._default
        if client is None:
            raise InvalidInput("client: none was given; call connect, or from_defaults with one")
        return client

    async def _get(self) -> list[ChatMessage]:
        try:
            await self._send([])
            context = await answer(self._to.read(self.session_id))
        except UnknownSession:
            self._tail = []
        except Transient as error:
            self._warn(error)
        else:
            messages = context.messages_for("chat")
            self._tail = self._shown(messages[1:] if context.system_prompt else messages)
        return [message for message, _ in self._tail]

    def _shown(self, messages: Sequence[JsonMessage]) -> list[_Told]:
        """The messages of a context, as they were put where they are word for word."""
        keys = [key(chat) for _, chat in self._tail]
        shown: list[_Told] = []
        for found in originals(keys, range(len(keys)), messages):
            if isinstance(found, int):
                shown.append(self._tail[found])
                continue
            # Some providers take system messages at the front only.
            is_front = all(one.role == MessageRole.SYSTEM for one, _ in shown)
            shown.append((from_chat(found, is_front=is_front), found))
        return shown

    async def _get_all(self) -> list[ChatMessage]:
        await self._send([])
        try:
            found = await answer(self._to.trajectory(self.session_id))
        except UnknownSession:
            return []
        kept = [turn.messages for turn in found.turns if turn.state == "kept"]
        return [from_chat(chat, is_front=True) for messages in kept for chat in messages]

    async def _put(self, messages: Sequence[ChatMessage]) -> None:
        told = [(message, to_chat(message)) for message in messages]
        new = [(f"llama-index-{uuid.uuid4().hex}", one) for one in told]
        try:
            await self._send(new)
        except Transient as error:
            self._unsent += new
            self._warn(error)
        self._tail += told
        if self._known is not None:
            self._known += [key(chat) for _, chat in told]

    async def _send(self, new: Sequence[tuple[str, _Told]]) -> None:
        """Push these, after those that could not be pushed before."""
        waiting = [*self._unsent, *new]
        if not waiting:
            return
        if self._policy is not None:
            await answer(self._to.open(self.session_id, self._policy))
            self._policy = None
        turns = [{"messages": [chat], "turn_id": turn_id} for turn_id, (_, chat) in waiting]
        many = ((self.session_id, turn) for turn in turns)
        pushed = await answer(self._to.push_many(many, on_too_large="cut"))
        self._seq, self._unsent = pushed[-1].seq, []

    async def _set(self, messages: Sequence[ChatMessage]) -> None:
        keys = [key(to_chat(message)) for message in messages]
        known = self._known
        if known is None or keys[: len(known)] != known or not await self._is_newest():
            await self._reset()
            known = []
        await self._put(messages[len(known) :])

    async def _is_newest(self) -> bool:
        """Whether nobody else has pushed to the session."""
        last_seq = 0
        with suppress(UnknownSession):
            last_seq = (await answer(self._to.info(self.session_id))).last_seq
        return last_seq == self._seq and not self._unsent

    async def _reset(self) -> None:
        with suppress(UnknownSession):
            await answer(self._to.clear(self.session_id))
        self._tail, self._unsent, self._known = [], [], []

    def _warn(self, error: Exception) -> None:
        self._failed += 1
        # Only the type: the message of another library's error may quote the conversation.
        log.warning("messages kept in this process: %s", type(error).__name__)


class ContextFunctionAgent(FunctionAgent):
    """A ``FunctionAgent`` that tells its ``ContextMemory`` each step of a run, not all at its end.

    So each call of the model gets the context as of then: a long run, too, stays within the limit.
    """

    async def take_step(
        self,
        ctx: AgentContext,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Ask the model, once the steps before are in the memory."""
        steps = await ctx.store.get(self.scratchpad_key, default=[])
        if steps and isinstance(memory, ContextMemory):
            await memory.aput_messages(steps)
            await ctx.store.set(self.scratchpad_key, [])
            llm_input = [*llm_input[: bool(self.system_prompt)], *await memory.aget()]
        return await super().take_step(ctx, llm_input, tools, memory)
