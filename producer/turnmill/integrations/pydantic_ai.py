"""An endless chat for pydantic-ai agents; needs the extra ``turnmill[pydantic-ai]``."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from turnmill.client._async.client import AsyncContextClient
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import UnknownSession
from turnmill.contract.marks import FEEDBACK
from turnmill.contract.policy import Policy
from turnmill.contract.turns import to_turn
from turnmill.integrations.shared import (
    Beside,
    as_function,
    call,
    called,
    function,
    image,
    keep,
    key,
    originals,
    result,
)
from turnmill.read.context import Context

__all__ = ["HistoryCounts", "HistoryProcessor", "history_processor"]


_URLS = ("http://", "https://", "file:", "data:")


@dataclass(frozen=True, slots=True)
class Chat:
    """A history in the shape of the OpenAI chat API.

    Attributes:
        messages: in order; the system prompt is not among them.
        owners: for each, the position of the pydantic-ai message it was made from.
        prompts: the system prompt: the system parts of the first message.
        names: names of the called tools, by call id.
        keys: the ``key`` of each message.
    """

    messages: list[JsonMessage]
    owners: list[int]
    prompts: tuple[SystemPromptPart, ...]
    names: Mapping[str, str]
    keys: list[str]


def to_chat(history: Sequence[ModelMessage]) -> Chat:
    """The history as chat messages, each call before its result.

    Left out, and kept only as long as the original is shown: thinking, native tools, generated
    files, request-scoped system prompts. Audio, video and documents become a line of text.
    """
    messages: list[JsonMessage] = []
    owners: list[int] = []
    for at, message in enumerate(history):
        made = _response(message) if isinstance(message, ModelResponse) else _request(message, at)
        messages += made
        owners += [at] * len(made)
    first = history[0].parts if history else ()
    prompts = tuple(part for part in first if isinstance(part, SystemPromptPart))
    keys = [key(message) for message in messages]
    return Chat(messages, owners, prompts, called(messages), keys)


def _request(request: ModelRequest, at: int) -> list[JsonMessage]:
    results: list[JsonMessage] = []
    rest: list[JsonMessage] = []
    for part in request.parts:
        match part:
            case ToolReturnPart():
                results.append(result(part.tool_call_id, part.model_response_str()))
                rest += [_fed_back(_content(part.files))] if part.files else []
            case RetryPromptPart() if part.tool_name is not None:
                results.append(result(part.tool_call_id, part.model_response()))
            case RetryPromptPart() | RetryFeedbackPart():
                rest.append(_fed_back(part.model_response()))
            case UserPromptPart():
                text = part.content
                whole = text if isinstance(text, str) else _content(text)
                rest.append({"role": "user", "content": whole})
            case SystemPromptPart() if at and part.scope == "conversation":
                rest.append({"role": "system", "content": part.content})
            case _:
                pass  # the system prompt, or what pydantic-ai notes for itself
    return results + rest  # results right behind their calls, whatever order the request has


def _fed_back(content: str | list[JsonMessage]) -> JsonMessage:
    """What a provider takes as a user's only, and what a tool or a check returned."""
    return {"role": "user", "name": FEEDBACK, "content": content}


def _response(response: ModelResponse) -> list[JsonMessage]:
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [
        call(part.tool_call_id, part.tool_name, _arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    if not text and not calls:
        return []
    message: JsonMessage = {"role": "assistant", "content": text or None}
    return [{**message, "tool_calls": calls} if calls else message]


def _arguments(call: ToolCallPart) -> str:
    # As the model wrote them: pydantic-ai's own rendering changes the spaces.
    return call.args if isinstance(call.args, str) and call.args else call.args_as_json_str()


def _content(items: Iterable[UserContent]) -> list[JsonMessage]:
    return [_part(item) for item in items if not isinstance(item, CachePoint)]


def _part(item: UserContent) -> JsonMessage:
    url, text = "", ""
    match item:
        case str():
            text = item
        case TextContent():
            text = item.content
        case BinaryContent() if item.is_image:
            # Canonical base64 without line breaks: what turnmill keeps once per content.
            data = base64.b64encode(item.data).decode()
            url = f"data:{item.media_type};base64,{data}"
        case ImageUrl() if item.url.startswith(_URLS):
            url = item.url
        case _:
            text = f"[{item.kind}, not kept]"
    if not url:
        return {"type": "text", "text": text}
    return image(url, (getattr(item, "vendor_metadata", None) or {}).get("detail"))


def from_chat(
    messages: Sequence[JsonMessage], names: Mapping[str, str] | None = None
) -> list[ModelMessage]:
    """The chat messages as pydantic-ai messages; adjacent requests become one.

    ``names`` has the tools that earlier messages called.
    """
    made: list[ModelMessage] = []
    known = {**(names or {}), **called(messages)}
    for message in messages:
        if message["role"] == "assistant":
            made.append(ModelResponse(parts=list(_said(message))))
        elif made and isinstance(made[-1], ModelRequest):
            made[-1] = replace(made[-1], parts=[*made[-1].parts, _asked(message, known)])
        else:
            made.append(ModelRequest(parts=[_asked(message, known)]))
    return made


def _said(message: JsonMessage) -> Iterator[ModelResponsePart]:
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [p.get("text") for p in content or ()]
    yield from (TextPart(text) for text in texts if text)
    for each in message.get("tool_calls") or ():
        made = as_function(each)["function"]
        yield ToolCallPart(made["name"], made["arguments"], each["id"])


def _asked(message: JsonMessage, names: Mapping[str, str]) -> ModelRequestPart:
    content = message["content"]
    match message["role"]:
        case "system" | "developer":
            return SystemPromptPart(content)
        case "tool":
            call_id = message["tool_call_id"]
            return ToolReturnPart(names.get(call_id, "unknown"), content, call_id)
        case _:
            text = content if isinstance(content, str) else [_item(part) for part in content]
            return UserPromptPart(text)


def _item(part: JsonMessage) -> UserContent:
    if part["type"] != "image_url":
        return str(part.get("text") or "")
    shown = part["image_url"]
    vendor = {"detail": shown["detail"]} if "detail" in shown else None
    if shown["url"].startswith("data:"):
        return replace(BinaryContent.from_data_uri(shown["url"]), vendor_metadata=vendor)
    return ImageUrl(shown["url"], vendor_metadata=vendor)


Restored = list[ModelMessage | int]
"""Messages made anew, and positions in the history of those that are as they were."""


def restore(
    history: Sequence[ModelMessage], chat: Chat, context: Sequence[JsonMessage]
) -> Restored:
    """The context as messages of the history and new ones; it ends as the history does.

    If the parts of the newest request were shortened, it keeps its other fields: pydantic-ai
    notes a request's instructions there.
    """
    made: Restored = []
    found = originals(chat.keys, chat.owners, context)
    for _, run in groupby(found, key=lambda item: isinstance(item, int)):
        items = list(run)
        made += [item for item in items if isinstance(item, int)]
        made += from_chat([m for m in items if not isinstance(m, int)], chat.names)
    last = chat.owners[-1]
    newest = history[last]
    if made and isinstance(end := made[-1], ModelRequest) and isinstance(newest, ModelRequest):
        made[-1] = replace(newest, parts=end.parts)
    made += range(last + 1, len(history))
    if chat.prompts and 0 not in made:
        made.insert(0, ModelRequest(parts=list(chat.prompts)))
    return made


log: logging.Logger = logging.getLogger(__name__)

SESSIONS = 1024
"""Sessions whose pushed ids are remembered here; a forgotten one only costs a longer push."""


@dataclass(slots=True)
class HistoryCounts:
    """What became of the model requests.

    Attributes:
        curated: sent with the session's context.
        cached: of these, without asking Redis: the same history as before.
        pushed: messages pushed.
        failed: sent with the history as it was, because something failed.
        diverged: of these, because the history's newest message is not the session's newest.
    """

    curated: int = 0
    cached: int = 0
    pushed: int = 0
    failed: int = 0
    diverged: int = 0


@dataclass(slots=True)
class _Seen:
    """What this process knows of a session."""

    seqs: dict[str, int] = field(default_factory=dict)
    beside: Beside = Beside()  # noqa: RUF009 - it cannot change
    is_open: bool = False
    digest: str = ""
    restored: Restored = field(default_factory=list)


class Diverged(Exception):
    """The session has gone on without this history, or the history was rewound."""


def history_processor(
    client: AsyncContextClient,
    session: str | Callable[[Any], str],
    *,
    policy: Policy | str | None = None,
) -> HistoryProcessor:
    """A capability that sends a session's context to the model, in place of the whole history.

    Args:
        client: its ``timeout_s`` is the longest a request waits when Redis is down.
        session: the session's name, or a function of the run's ``deps`` that tells it.
        policy: given to a session when it is first seen here; None leaves what it has.

    ``Agent(model, capabilities=[history_processor(client, session="agent-7")])``. Give each run
    the whole history, as ``result.all_messages()`` returns it: it stays complete. A history that
    was edited or cut in front is another conversation and needs another session.
    """
    return HistoryProcessor(client, session, policy)


class HistoryProcessor(AbstractCapability[Any]):
    """From ``history_processor``. Never raises into the agent: it changes nothing on an error."""

    def __init__(
        self,
        client: AsyncContextClient,
        session: str | Callable[[Any], str],
        policy: Policy | str | None = None,
    ) -> None:
        self.counts: HistoryCounts = HistoryCounts()
        self._client = client
        self._session = session
        self._policy = policy
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a client cannot be written down."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Show the model the session's context; the agent's own history is left as it is."""
        parameters = request_context.model_request_parameters
        request_context.messages = await self.curate(
            request_context.messages,
            deps=ctx.deps,
            instructions="\n\n".join(part.content for part in parameters.instruction_parts or ()),
            tools=(*parameters.function_tools, *parameters.output_tools),
        )
        return request_context

    async def curate(
        self,
        history: Sequence[ModelMessage],
        *,
        deps: Any = None,
        instructions: str = "",
        tools: Sequence[ToolDefinition] = (),
    ) -> list[ModelMessage]:
        """Push what is new in the history, and return the session's context in its place.

        Instructions and tools count: the limit is of the whole request.
        The same history again is answered from memory. If anything fails, returns the history.
        """
        try:
            session = self._session if isinstance(self._session, str) else self._session(deps)
            beside = Beside(instructions, tuple(map(_schema, tools)))
            restored = await self._restored(session, history, beside)
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            self.counts.failed += 1
            self.counts.diverged += isinstance(error, Diverged)
            # Only the type: the message of another library's error may quote the conversation.
            log.warning("history left as it is: %s", type(error).__name__)
            return list(history)
        return [history[item] if isinstance(item, int) else item for item in restored]

    async def _restored(
        self, session: str, history: Sequence[ModelMessage], beside: Beside
    ) -> Restored:
        chat = to_chat(history)
        if not chat.messages or not isinstance(history[-1], ModelRequest):
            return list(range(len(history)))
        # The same in every process that has the history, so that nothing is pushed twice.
        ids = [f"pydantic-ai-{at}-{word[:32]}" for at, word in enumerate(chat.keys)]
        prompt = "\n\n".join([*(part.content for part in chat.prompts), beside.prompt]).strip()
        beside = beside._replace(prompt=prompt)
        words = [*ids, str(len(history)), json.dumps(beside)]
        digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
        seen = self._of(session)
        if seen.digest == digest:
            self.counts.cached += 1
        else:
            try:
                context = await self._exchange(session, seen, chat, ids, beside)
            except Exception:
                self._seen.pop(session, None)  # begin anew: pushing again stores nothing twice
                raise
            shown = context.messages_for("chat")
            messages = shown[1:] if prompt and context.system_prompt else shown
            seen.restored, seen.digest = restore(history, chat, messages), digest
        self.counts.curated += 1
        return seen.restored

    async def _exchange(
        self, session: str, seen: _Seen, chat: Chat, ids: Sequence[str], beside: Beside
    ) -> Context:
        """Push what this process has not pushed yet, and read."""
        if seen.seqs and await self._last_seq(session) < max(seen.seqs.values()):
            # Expired, forgotten or lost with Redis: without its past the newest turn is no context.
            seen.seqs, seen.beside, seen.is_open = {}, Beside(), False
        if beside != seen.beside or (self._policy is not None and not seen.is_open):
            policy = None if seen.is_open else self._policy
            await self._client.open(session, policy, **beside.since(seen.beside))
            seen.beside, seen.is_open = beside, True
        new = [at for at, turn_id in enumerate(ids) if turn_id not in seen.seqs]
        turns = [to_turn(chat.messages[at], turn_id=ids[at]) for at in new]
        done, context = await self._client.step_many(session, turns, on_too_large="cut")
        for pushed in done:
            seen.seqs[pushed.turn_id] = pushed.seq
            self.counts.pushed += not pushed.duplicate
        if context.last_seq != seen.seqs[ids[-1]]:
            raise Diverged
        return context

    async def _last_seq(self, session: str) -> int:
        with suppress(UnknownSession):
            return (await self._client.info(session)).last_seq
        return 0

    def _of(self, session: str) -> _Seen:
        seen = self._seen.get(session) or _Seen()
        keep(self._seen, session, seen, SESSIONS)
        return seen


def _schema(tool: ToolDefinition) -> dict[str, Any]:
    return function(tool.name, tool.description or "", tool.parameters_json_schema)
