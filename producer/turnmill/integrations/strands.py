"""An endless chat for Strands agents; needs the extra ``turnmill[strands]``."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import BeforeModelCallEvent, HookRegistry
from strands.hooks.events import AgentInitializedEvent
from strands.tools.registry import ToolRegistry
from strands.types.content import ContentBlock, Message, Role
from strands.types.exceptions import ContextWindowOverflowException
from strands.types.tools import ToolResultStatus

from turnmill.client._sync.client import ContextClient
from turnmill.contract.codec import sendable
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import TurnConflict, TurnmillError, UnknownSession
from turnmill.contract.policy import Policy
from turnmill.integrations.shared import (
    Beside,
    as_function,
    call,
    function,
    image,
    joined,
    key,
    originals,
    parsed,
    result,
)
from turnmill.read.context import Context

__all__ = ["ManagementCounts", "TurnmillConversationManager"]


_MADE: Final = "turnmill"
"""In the custom metadata of a message that stands for others; Strands sends no metadata."""

_UNSAID: Final = frozenset({"reasoningContent", "cachePoint"})


def is_made(message: Message) -> bool:
    """Whether the message was made here of a context, and is nobody's own."""
    return bool(((message.get("metadata") or {}).get("custom") or {}).get(_MADE))


def name_all(messages: Sequence[Message]) -> list[str]:
    """The tracking ids of the messages; one without gets the same in every process."""
    for at, message in enumerate(messages):
        if not message.get("tracking_id"):
            message["tracking_id"] = _id({"at": at, "role": message["role"], **_keyed(message)})
    return [message["tracking_id"] for message in messages]


def _keyed(message: Message) -> JsonMessage:
    return {"messages": to_chat(message)}


def _id(content: JsonMessage) -> str:
    return str(uuid.UUID(key(content)[:32], version=4))


def to_chat(message: Message) -> list[JsonMessage]:
    """The message as messages of the chat API: each tool result in one of its own, first.

    Reasoning and cache points are left out. Audio, video and documents become a line of text. A
    message that has nothing else gives none.
    """
    said: list[JsonMessage] = []
    calls: list[JsonMessage] = []
    results: list[JsonMessage] = []
    for block in message["content"]:
        if "toolUse" in block:
            use = block["toolUse"]
            calls.append(call(use["toolUseId"], use["name"], _arguments(use["input"])))
        elif "toolResult" in block:
            results.append(_result(block["toolResult"]))
        elif _UNSAID.isdisjoint(block):
            said.append(_part(block))
    if not said and not calls:
        return results
    spoken: JsonMessage = {"role": message["role"], "content": joined(said) or None}
    return [*results, {**spoken, "tool_calls": calls} if calls else spoken]


def _arguments(given: Any) -> str:
    """As JSON; half a surrogate pair stays bare: so it is mended, and the message made anew."""
    bare = json.dumps(given, default=str, ensure_ascii=False)
    return json.dumps(given, default=str) if sendable(bare) == bare else bare


def _result(given: Any) -> JsonMessage:
    told = result(given["toolUseId"], joined([_part(item) for item in given["content"]]))
    return {**told, "status": "error"} if given.get("status") == "error" else told


def _part(block: Any) -> JsonMessage:
    text = ""
    match block:
        case {"text": str(said)}:
            text = said
        case {"json": value}:
            text = json.dumps(value, default=str)
        case {"image": {"format": kind, "source": {"bytes": bytes(data)}}}:
            # Canonical base64 without line breaks: what turnmill keeps once per content.
            url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
            return image(url)
        case {"guardContent": {"text": {"text": str(said)}}}:
            text = said
        case {"citationsContent": {"content": [*cited]}}:
            text = "".join(str(each.get("text") or "") for each in cited)
        case _:
            text = f"[{next(iter(block), 'nothing')}, not kept]"
    return {"type": "text", "text": text}


def from_chat(messages: Iterable[JsonMessage]) -> list[Message]:
    """The chat messages as Strands' messages, marked; what one role says in a row is one."""
    made: list[Message] = []
    for message in messages:
        role: Role = "assistant" if message["role"] == "assistant" else "user"
        if made and made[-1]["role"] == role:
            made[-1]["content"] += _blocks(message)
        else:
            made.append({"role": role, "content": _blocks(message)})
    for each in made:
        each["metadata"] = {"custom": {_MADE: True}}
        each["tracking_id"] = _id({"role": each["role"], **_keyed(each)})
    return made


def _blocks(message: JsonMessage) -> list[ContentBlock]:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    shown = [_block(part) for part in parts if part.get("text") != ""]
    if message["role"] == "tool":
        status: ToolResultStatus = "error" if message.get("status") == "error" else "success"
        call_id = message["tool_call_id"]
        return [{"toolResult": {"toolUseId": call_id, "status": status, "content": shown}}]
    return [*shown, *map(_use, message.get("tool_calls") or ())]


def _use(call: JsonMessage) -> ContentBlock:
    function = as_function(call)["function"]
    try:
        given = parsed(function["arguments"])
    except ValueError:
        given = {}  # shortened
    return {"toolUse": {"toolUseId": call["id"], "name": function["name"], "input": given}}


def _block(part: JsonMessage) -> Any:
    if part["type"] != "image_url":
        return {"text": str(part.get("text") or f"[{part['type']}, not kept]")}
    url = part["image_url"]["url"]
    head, _, data = url.partition(";base64,")
    if not data:
        return {"text": f"[image at {url}]"}
    kind = head.removeprefix("data:image/")
    return {"image": {"format": kind, "source": {"bytes": base64.b64decode(data)}}}


@dataclass(slots=True)
class ManagementCounts:
    """What became of the agent's messages.

    Attributes:
        managed: times they were made the session's context.
        pushed: messages pushed.
        failed: times they were left as they were, because something failed.
        diverged: of these, because the newest message is not the session's newest.
        cleared: times the session was begun anew, because messages were taken away or changed.
        lowered: times the session's limit was lowered, because the model found a context too long.
    """

    managed: int = 0
    pushed: int = 0
    failed: int = 0
    diverged: int = 0
    cleared: int = 0
    lowered: int = 0


class Diverged(Exception):
    """Another agent has gone on with the session."""


class Exchange:
    """Pushes what is new, and reads; remembers what it pushed, so that this is little."""

    def __init__(
        self, client: ContextClient, policy: Policy | str | None, counts: ManagementCounts
    ) -> None:
        self.rewinds: int = 0
        self._client = client
        self._policy = policy
        self._counts = counts
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know nothing of the session: pushing again stores nothing twice."""
        self._seqs: dict[str, int] = {}
        self._keys: dict[str, list[str]] = {}
        self._beside = Beside()
        self._is_open = False

    def of(self, session: str, messages: Sequence[Message], beside: Beside) -> Context | None:
        """The session's context after these messages; None when they say nothing.

        Raises:
            Diverged: the newest message is not the session's newest.
        """
        ids = name_all(messages)
        told = dict(zip(ids, map(to_chat, messages), strict=True))
        made = {name for name, message in zip(ids, messages, strict=True) if is_made(message)}
        if not any(told.values()):
            return None
        if self._is_edited(told):
            self._clear(session)
            made = set()
        elif (self._seqs or made) and self._is_lost(session):
            self.begin_anew()
            made = set()  # they are all that is left of older turns
        self._open(session, beside)
        own = {name: said for name, said in told.items() if said and name not in made}
        try:
            context = self._step(session, own)
        except TurnConflict:  # edited where this process did not see it
            self._clear(session)
            self._open(session, beside)
            own = {name: said for name, said in told.items() if said}
            context = self._step(session, own)
        if own and context.last_seq != self._seqs[[*own][-1]]:
            raise Diverged
        return context

    def _clear(self, session: str) -> None:
        self._client.clear(session)
        self.rewinds += 1
        self._counts.cleared += 1
        self.begin_anew()

    def _is_edited(self, told: dict[str, list[JsonMessage]]) -> bool:
        """Whether a message that was here after the last look has changed or is away."""
        return any(
            name not in told or list(map(key, told[name])) != keys
            for name, keys in self._keys.items()
        )

    def _is_lost(self, session: str) -> bool:
        """Whether the session expired, was forgotten or got lost with Redis."""
        try:
            return self._client.info(session).last_seq < max(self._seqs.values(), default=1)
        except UnknownSession:
            return True

    def _open(self, session: str, beside: Beside) -> None:
        if beside == self._beside and (self._policy is None or self._is_open):
            return
        policy = None if self._is_open else self._policy
        self._client.open(session, policy, **beside.since(self._beside))
        self._beside, self._is_open = beside, True

    def _step(self, session: str, told: dict[str, list[JsonMessage]]) -> Context:
        """Push what is new of what was told, and read."""
        new = [name for name in told if name not in self._seqs]
        turns = [
            {"turn_id": f"strands-{self.rewinds}-{name}", "messages": told[name]} for name in new
        ]
        done, context = self._client.step_many(session, turns, on_too_large="cut")
        for name, pushed in zip(new, done, strict=True):
            self._seqs[name] = pushed.seq
            self._counts.pushed += not pushed.duplicate
        return context

    def showed(self, messages: Sequence[Message]) -> None:
        """Remember what the agent has now: what of it changes or goes was edited."""
        told = zip(name_all(messages), map(to_chat, messages), strict=True)
        self._keys = {name: list(map(key, said)) for name, said in told}


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
