"""History for Microsoft's agent-framework; needs the extra ``turnmill[agent-framework]``."""

from __future__ import annotations

import json
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Final

from agent_framework import (
    AgentSession,
    Content,
    FunctionTool,
    HistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from turnmill.client._async.client import AsyncContextClient
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import Transient, TurnmillError, UnknownSession
from turnmill.contract.legality import NO_RESULT, CallTracker
from turnmill.contract.policy import Policy
from turnmill.integrations.shared import (
    Beside,
    as_function,
    bound,
    call,
    chat_of,
    fitting,
    image,
    joined,
    keep,
    key,
    result,
)

__all__ = ["HistoryCounts", "TurnmillHistoryProvider"]


_BESIDE: Final = "native"
"""The field for what other formats say beside; whatever shortens a message takes it off."""

_DIALECT: Final = "agent-framework"


def to_chat(message: Message) -> list[JsonMessage]:
    """The message as messages of the chat API: each result of a tool in one of its own.

    Files that are no images become a line of text.
    """
    plain = _plain(message)
    beside = _difference(_json(_without_files(message)), _base(plain))
    if not beside:
        return plain
    kept = {"dialect": _DIALECT, "of": _words(plain), "beside": beside}
    return [{**plain[0], _BESIDE: kept}, *plain[1:]]


def _without_files(message: Message) -> Message:
    contents = [
        Content.from_text(str((_part(each) or {})["text"])) if _is_file(each) else each
        for each in message.contents
    ]
    return Message(
        message.role,
        contents,
        author_name=message.author_name,
        message_id=message.message_id,
        additional_properties=message.additional_properties,
    )


def _is_file(content: Content) -> bool:
    return content.type in {"data", "uri"} and (_part(content) or {}).get("type") == "text"


def _words(plain: Sequence[JsonMessage]) -> list[str]:
    return [key(each)[:12] for each in plain]


def _plain(message: Message) -> list[JsonMessage]:
    results = [_result(content) for content in message.contents if _is_result(content)]
    parts = [part for content in message.contents if (part := _part(content))]
    calls = [
        call(content.call_id, content.name, _arguments(content.arguments))
        for content in message.contents
        if _is_call(content)
    ]
    if results and not parts and not calls:
        return results
    role = message.role if message.role in {"system", "developer", "user"} else "assistant"
    named = {"name": message.author_name} if message.author_name else {}
    said: JsonMessage = {"role": role, **named, "content": joined(parts)}
    if calls:
        said |= {"content": joined(parts) or None, "tool_calls": calls}
    elif not parts:
        # Nothing that can be said: an approval, reasoning alone. Its place must be kept.
        kinds = ", ".join(dict.fromkeys(content.type for content in message.contents))
        said["content"] = f"[{kinds or 'nothing'}]"
    return [said, *results]


def _is_call(content: Content) -> bool:
    is_own = not content.informational_only and not content.hosted
    return content.type == "function_call" and bool(content.call_id) and is_own


def _is_result(content: Content) -> bool:
    return content.type == "function_result" and bool(content.call_id)


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given or {}, default=str)


def _result(content: Content) -> JsonMessage:
    parts = [part for item in content.items or () if (part := _part(item))]
    text = content.result if isinstance(content.result, str) else json.dumps(content.result)
    return result(content.call_id, joined(parts) if parts else text or "")


def _part(content: Content) -> JsonMessage | None:
    """What a model can read of it, or None."""
    if content.type == "text":
        return {"type": "text", "text": content.text}
    if content.type in {"data", "uri"}:
        is_image = (content.media_type or "").startswith("image/")
        if is_image and (content.uri or "").startswith(("data:", "http://", "https://")):
            return image(str(content.uri))
        return {"type": "text", "text": f"[{content.media_type or content.type}, not kept]"}
    if content.type in {"hosted_file", "hosted_vector_store", "error"}:
        return {"type": "text", "text": f"[{content.type}, not kept]"}
    return None


def from_chat(messages: Sequence[JsonMessage]) -> list[Message]:
    """The chat messages as agent-framework's; adjacent results of tools are one message."""
    made: list[Message] = []
    at = 0
    while at < len(messages):
        found, size = _carried(messages, at)
        if found is None:
            # Up to the next that is carried; results are joined.
            end = next((i for i in range(at + 1, len(messages)) if _kept(messages[i])), None)
            made += _made(list(map(_bare, messages[at:end])))
            at = len(messages) if end is None else end
        else:
            made.append(found)
            at += size
    return made


def _kept(message: JsonMessage) -> dict[str, Any]:
    found = message.get(_BESIDE) or {}
    return found if found.get("dialect") == _DIALECT else {}


def _bare(message: JsonMessage) -> JsonMessage:
    return {name: value for name, value in message.items() if name != _BESIDE}


def _carried(messages: Sequence[JsonMessage], at: int) -> tuple[Message | None, int]:
    """The message that begins here, as it was, and how many chat messages it is made of."""
    kept = _kept(messages[at])
    size = len(kept.get("of", ()))
    plain = list(map(_bare, messages[at : at + size]))
    if not size or _words(plain) != kept["of"]:
        return None, 0
    return Message.from_dict(_overlaid(_base(plain), kept["beside"])), size


def _made(messages: Iterable[JsonMessage]) -> list[Message]:
    made: list[Message] = []
    for role, run in groupby(messages, key=lambda message: message["role"]):
        if role == "tool":
            made.append(Message("tool", [_told(message) for message in run]))
        else:
            made += [
                Message(role, _contents(message), author_name=message.get("name"))
                for message in run
            ]
    return made


def _told(message: JsonMessage) -> Content:
    items = _texts(message["content"])
    return Content.from_function_result(message["tool_call_id"], result=items)


def _contents(message: JsonMessage) -> list[Content]:
    calls = [
        Content.from_function_call(
            each["id"], each["function"]["name"], arguments=each["function"]["arguments"]
        )
        for each in map(as_function, message.get("tool_calls") or ())
    ]
    return [*_texts(message.get("content") or []), *calls]


def _texts(content: str | Sequence[JsonMessage]) -> list[Content]:
    if isinstance(content, str):
        return [Content.from_text(content)]
    return [
        Content.from_uri(part["image_url"]["url"], media_type=_media(part["image_url"]["url"]))
        if part["type"] == "image_url"
        else Content.from_text(str(part.get("text") or f"[{part['type']}, not kept]"))
        for part in content
    ]


def _media(url: str) -> str:
    return url[5 : url.index(";")] if url.startswith("data:") else "image/*"


def _json(message: Message) -> dict[str, Any]:
    """The message as JSON, which is what it is once it was stored."""
    found: dict[str, Any] = json.loads(json.dumps(message.to_dict(), default=str))
    return found


def _base(plain: Sequence[JsonMessage]) -> dict[str, Any]:
    """What the chat messages alone say, as one message in JSON."""
    made = list(map(_json, _made(plain)))
    return {**made[0], "contents": [content for each in made for content in each["contents"]]}


def _difference(full: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What is to be laid over ``base`` to have ``full``."""
    steps: list[Any] = []
    at = 0
    for content in full["contents"]:
        said = base["contents"][at] if at < len(base["contents"]) else {}
        if said.get("type") == content["type"]:
            steps.append([at, _changed(content, said)])
            at += 1
        else:
            steps.append(content)
    beside = _changed({**full, "contents": 0}, {**base, "contents": 0})
    is_all = steps == [[step, {}] for step in range(len(base["contents"]))]
    return beside if is_all else {**beside, "contents": steps}


def _changed(full: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    names = sorted(full.keys() | base.keys())
    return {name: full.get(name) for name in names if full.get(name) != base.get(name)}


def _overlaid(base: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    contents = [
        _laid(base["contents"][step[0]], step[1]) if isinstance(step, list) else step
        for step in beside.get("contents", ())
    ]
    full = _laid(base, beside)
    return {**full, "contents": contents} if "contents" in beside else full


def _laid(base: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**base, **changed}.items() if value is not None}


log: logging.Logger = logging.getLogger(__name__)

SESSIONS = 1024
"""Sessions whose newest context is kept here, for the time that Redis is away."""

_UNSAVED = "unsaved"
"""In the provider's state: turns that Redis has not taken yet."""

_INPUT = "input"
"""In the provider's state, until the history is read: of what the framework adds to it itself the
tokens, and the ids of the calls that it answers."""

_WHOLE: Final = "turnmill_input"
"""In a run's metadata: its input as it was given."""

_SMALL: Final = 500
"""Tokens of an input that are not worth asking for the limit."""


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
        context.metadata[_WHOLE] = context.input_messages
        told = [to_chat(message) for message in context.input_messages]
        answered = [each["tool_call_id"] for each in chain(*told) if each["role"] == "tool"]
        context.input_messages, tokens = await self._fitting(context, told)
        state[_INPUT] = tokens, answered
        await super().before_run(agent=agent, session=session, context=context, state=state)

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Push what was said, whole."""
        context.input_messages = context.metadata.pop(_WHOLE, context.input_messages)
        await super().after_run(agent=agent, session=session, context=context, state=state)

    async def _fitting(
        self, context: SessionContext, groups: Sequence[list[JsonMessage]]
    ) -> tuple[list[Message], int]:
        """The messages that are in no session yet, cut to half the limit; and their tokens.

        ``groups`` are the same in chat's shape, a group for each.
        """
        given, name = context.input_messages, self._name(context.session_id)
        tokens = bound([*chain(*groups)])
        if tokens <= _SMALL:
            return given, tokens
        try:
            await self._client.open(name)  # else a new one has no limit yet
            most = (await self._client.info(name)).limits.room // 2
        except TurnmillError as error:
            self._failed(error)
            return given, 0
        if tokens <= most or (cut := fitting(groups, most)) is None:
            return given, min(tokens, most)
        log.warning("input cut to %d tokens for a model's call; it is stored whole", most)
        both = zip(given, groups, cut, strict=True)
        made = [[one] if now == was else from_chat(now) for one, was, now in both]
        return [message for some in made for message in some], most

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The session's context; on an error what was last known here, and what is unsaved."""
        del kwargs
        name, (beside, answered) = self._name(session_id), (state or {}).pop(_INPUT, (0, None))
        try:
            await self._push(name, state)
            context = await self._client.read(name, beside=beside)
        except UnknownSession:
            return []
        except TurnmillError as error:
            self._failed(error)
            return [*self._known.get(name, ()), *_messages(_unsaved(state))]
        self.counts.loaded += 1
        shown = chat_of(context)[bool(context.system_prompt) :]
        keep(self._known, name, from_chat(shown), SESSIONS)
        return [*self._known[name], *_stubs(shown, answered)]

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
            InvalidTurn: a message cannot be stored.
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
        keep(self._beside, name, beside, SESSIONS)

    async def _push(self, name: str, state: dict[str, Any] | None) -> None:
        """Push what is unsaved: a turn that was stored already is stored no second time."""
        if turns := _unsaved(state):
            await self._open(name, self._beside.get(name, Beside()))
            done = await self._client.push_many(
                ((name, turn) for turn in turns), on_too_large="cut"
            )
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


def _stubs(history: Sequence[JsonMessage], answered: Sequence[str] | None) -> list[Message]:
    """Results for calls that wait, and that the input behind the history does not answer.

    A run that failed in between left them; no provider takes them.
    """
    tracker = CallTracker()
    tracker.follow(history)
    left = [each for each in tracker.open if answered is not None and each not in answered]
    return from_chat(
        [{"role": "tool", "tool_call_id": each, "content": NO_RESULT} for each in left]
    )


def _unsaved(state: dict[str, Any] | None) -> list[JsonMessage]:
    return list((state or {}).get(_UNSAVED, ()))


def _messages(turns: Sequence[JsonMessage]) -> list[Message]:
    return from_chat([message for turn in turns for message in turn["messages"]])
