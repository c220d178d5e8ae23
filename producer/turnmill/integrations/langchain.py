"""LangChain agents with a compacted context; needs the extra ``turnmill[langchain]``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import Runtime

from turnmill.contract.context import JsonMessage, Pushed
from turnmill.contract.errors import InvalidInput, TurnmillError, UnknownSession
from turnmill.contract.keys import session_keys
from turnmill.contract.legality import CallTracker
from turnmill.contract.marks import FEEDBACK
from turnmill.contract.names import Namespace, session_id
from turnmill.contract.policy import Policy
from turnmill.contract.turns import TurnLike
from turnmill.integrations.shared import (
    NO_ID,
    Beside,
    Client,
    answer,
    arun,
    as_function,
    call,
    called,
    chat_of,
    image,
    keep,
    key,
    originals,
    run,
)
from turnmill.read.context import Context

__all__ = ["ContextChatMessageHistory", "ContextMiddleware"]


_URLS = ("http://", "https://", "file:", "data:")


def to_chat(message: BaseMessage) -> JsonMessage:
    """The message in chat's shape.

    Left out, and kept only as long as the original is shown: reasoning, a provider's own tools,
    artifacts, metadata. Audio, video and files become a line of text.
    """
    found: JsonMessage = {"role": _role(message), "content": _content(message)}
    if isinstance(message, AIMessage) and (calls := _calls(message)):
        found["content"] = found["content"] or None
        found["tool_calls"] = calls
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id or NO_ID
    elif isinstance(message, FunctionMessage | ChatMessage):
        found["name"] = FEEDBACK  # of nobody knows whom: it lays down no rules
    elif message.name:
        found["name"] = message.name
    return found


def _calls(message: AIMessage) -> list[JsonMessage]:
    """Also those whose arguments are no JSON: LangChain sends them to the model all the same."""
    told: list[tuple[str | None, str | None, str]] = [
        (each["id"], each["name"], json.dumps(each["args"], ensure_ascii=False))
        for each in message.tool_calls
    ]
    told += [(each["id"], each["name"], each["args"] or "") for each in message.invalid_tool_calls]
    return [call(call_id, name, args) for call_id, name, args in told]


def _role(message: BaseMessage) -> str:
    match message:
        case AIMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case SystemMessage():
            return "system"
        case _:
            return "user"


def _content(message: BaseMessage) -> str | list[JsonMessage]:
    if isinstance(message.content, str):
        return message.content
    blocks: Iterable[Mapping[str, Any]] = message.content_blocks
    if isinstance(message, AIMessage):
        return "".join(block["text"] for block in blocks if block["type"] == "text")
    return [_part(block) for block in blocks if block["type"] != "reasoning"] or ""


def _part(block: Mapping[str, Any]) -> JsonMessage:
    if block["type"] == "image" and (url := _url(block)):
        return image(url, (block.get("extras") or {}).get("detail"))
    text = block.get("text")
    return {"type": "text", "text": f"[{block['type']}, not kept]" if text is None else text}


def _url(block: Mapping[str, Any]) -> str:
    """The image as turnmill takes it, or ``""``."""
    url = str(block.get("url") or "")
    if data := block.get("base64"):
        url = f"data:{block.get('mime_type') or 'image/png'};base64,{data}"
    head, comma, data = url.partition(";base64,")
    if url.startswith("data:") and comma:
        with suppress(binascii.Error, ValueError):
            # Canonical: what turnmill keeps once per content, and gives back.
            return (
                f"{head}{comma}{base64.b64encode(base64.b64decode(data, validate=True)).decode()}"
            )
        return ""
    return url if url.startswith(_URLS) else ""


def restored(
    history: Sequence[BaseMessage], chat: Sequence[JsonMessage], context: Sequence[JsonMessage]
) -> list[AnyMessage]:
    """The context as messages: the history's own objects, and new ones for what turnmill wrote.

    ``chat`` is the history in chat's shape.
    """
    names = called([*chat, *context])
    made: list[Any] = []
    for found in originals([key(one) for one in chat], range(len(chat)), context):
        if isinstance(found, int):
            own = history[found]
            made.append(own if _has_ids(own) else _from_chat(chat[found], names))
            continue
        # Some providers take system messages at the front only.
        is_front = all(isinstance(one, SystemMessage) for one in made)
        made.append(_from_chat(found, names, is_front=is_front))
    return made


def _has_ids(message: BaseMessage) -> bool:
    """Whether its calls, or the call it answers, have ids: else they are given some."""
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return all(each["id"] for each in calls) and getattr(message, "tool_call_id", NO_ID) != ""


def _from_chat(
    message: JsonMessage, names: Mapping[str, str], *, is_front: bool = False
) -> BaseMessage:
    match message["role"]:
        case "assistant":
            return _said(message)
        case "tool":
            name = names.get(message["tool_call_id"])
            return convert_to_messages([{**message, "name": name} if name else message])[0]
        case "system" | "developer" if not is_front:
            return HumanMessage(message["content"])
        case _:
            return convert_to_messages([message])[0]


def _said(message: JsonMessage) -> AIMessage:
    calls: list[Any] = []
    invalid: list[Any] = []
    for each in map(as_function, message.get("tool_calls") or ()):
        try:
            calls.append(parse_tool_call(each))
        except OutputParserException:  # shortened
            invalid.append(make_invalid_tool_call(each, None))
    content, name = message.get("content") or "", message.get("name")
    return AIMessage(content, name=name, tool_calls=calls, invalid_tool_calls=invalid)


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
        messages = chat_of(context)
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
        await answer(self._client.push_many(turns, on_too_large="cut"))

    async def _clear(self) -> None:
        with suppress(UnknownSession):
            await answer(self._client.clear(self.session_id))


SESSIONS = 256
"""Sessions whose histories are remembered here; a forgotten one only costs a longer push."""

BRANCHES = 8
"""How often a history may turn out to be another one before its session is found."""

FORK_S = 5.0
"""The longest wait for a worker that begins a branch as its session was."""


@dataclass(slots=True)
class FollowerCounts:
    """What became of the model requests.

    Attributes:
        curated: sent with the session's context.
        pushed: messages pushed.
        branched: branches begun, because a history had gone back or was edited.
        replayed: of these, pushed from their first message, because no fork could be made.
        failed: sent with the history as it was, because something failed.
    """

    curated: int = 0
    pushed: int = 0
    branched: int = 0
    replayed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What this process knows of a session: the words of its messages, and the newest seq."""

    words: tuple[str, ...] = ()
    seq: int = 0
    beside: Beside = Beside()  # noqa: RUF009 - it cannot change
    is_open: bool = False

    def fork(self, words: Sequence[str]) -> int | None:
        """How many messages of a history are in this session, if others follow them there."""
        both = zip(self.words, words, strict=False)
        fork = next((at for at, (its, ours) in enumerate(both) if its != ours), len(words))
        return fork if fork < len(self.words) else None


class Scattered(Exception):
    """None of the sessions looked at follows this history alone."""


class Follower:
    """Follows the histories of many sessions.

    Args:
        client: synchronous or asynchronous.
        policy: given to a session when it is first seen here; None leaves what it has.
        prefix: what the ids of its turns begin with.
    """

    def __init__(self, client: Client, policy: Policy | str | None, prefix: str) -> None:
        self.counts: FollowerCounts = FollowerCounts()
        self._client = client
        self._policy = policy
        self._prefix = prefix
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._branches: OrderedDict[str, str] = OrderedDict()

    async def follow(
        self, session: str, messages: Sequence[JsonMessage], beside: Beside
    ) -> Context:
        """Push what is new in the history, and read.

        Raises:
            Scattered: others push to the session, too; and what the client's methods raise.
        """
        words = chain(messages)
        name, policy = self._line(session, words), self._policy
        for _ in range(BRANCHES):
            found = await self._advance(name, messages, words, beside, policy)
            if not isinstance(found, int):
                keep(self._branches, session, name, SESSIONS)
                self.counts.curated += 1
                return found
            if policy is None:
                with suppress(UnknownSession):
                    policy = (await answer(self._client.info(session))).policy
            # Every process finds the branch by the message that begins it; where there is none yet,
            # the next message will tell.
            begins = words[found] if found < len(words) else uuid.uuid4().hex
            name, parent = f"{session}~{begins[:12]}", name
            if name not in self._seen:
                self.counts.branched += 1
                await self._begin(name, parent, messages[:found], words)
        raise Scattered

    async def _begin(
        self, name: str, parent: str, shared: Sequence[JsonMessage], words: Sequence[str]
    ) -> None:
        """Begin a branch as its session was behind these messages, with what was compacted of them.

        Where that cannot be, the branch is pushed from its first message.
        """
        if not (end := _before_calls(shared)) or await self._learn(name, words):
            return
        at = f"{self._prefix}-{words[end - 1]}"
        try:
            await answer(self._client.fork(parent, name, at=at, timeout_s=FORK_S))
        except TurnmillError as error:
            self.counts.replayed += 1
            log.warning("branch pushed from its first message: %s", type(error).__name__)

    async def store(self, session: str, messages: Sequence[JsonMessage]) -> None:
        """Push what is new in a history that was followed here before; else do nothing."""
        words = chain(messages)
        name = self._line(session, words)
        seen = self._seen.get(name)
        if seen is not None and seen.fork(words) is None:
            with self._begun_anew_if_it_fails(name):
                many = ((name, turn) for turn in self._turns(seen, messages, words))
                pushed = await answer(self._client.push_many(many, on_too_large="cut"))
            self._note(name, seen, words, pushed)

    def _line(self, session: str, words: Sequence[str]) -> str:
        """The session, or the branch that this history was last in."""
        name = self._branches.get(session, session)
        return session if self._known(name).fork(words) is not None else name

    def _known(self, name: str) -> _Seen:
        return self._seen.get(name, _Seen())

    async def _advance(
        self,
        name: str,
        messages: Sequence[JsonMessage],
        words: Sequence[str],
        beside: Beside,
        policy: Policy | str | None,
    ) -> Context | int:
        """Push what the session lacks, and read; or how many messages the two have in common."""
        await self._expire(name)
        if name not in self._seen:
            await self._learn(name, words)
        if (fork := self._known(name).fork(words)) is not None:
            return fork
        await self._open(name, beside, policy)
        # One look from here on: others may push to this session meanwhile, and note what they did.
        seen = self._known(name)
        if (fork := seen.fork(words)) is not None:
            return fork
        with self._begun_anew_if_it_fails(name):
            turns = self._turns(seen, messages, words)
            step = self._client.step_many(name, turns, on_too_large="cut")
            pushed, context = await answer(step)
        seen = self._note(name, seen, words, pushed)
        if len(seen.words) < len(words):
            return len(seen.words)
        return context if context.last_seq == seen.seq else len(words)

    async def _expire(self, name: str) -> None:
        """Begin anew with a session that expired, was forgotten, or was lost with Redis."""
        if seen := self._seen.get(name):
            last_seq = 0
            with suppress(UnknownSession):
                last_seq = (await answer(self._client.info(name))).last_seq
            if last_seq < seen.seq:
                self._seen.pop(name, None)

    async def _learn(self, name: str, words: Sequence[str]) -> bool:
        """Note which messages the session has, before any is pushed; False where it has none.

        What another process did with it is known by the ids of its turns. Only of a very long
        session are the oldest ids forgotten: it follows this history if it has what comes next.
        """
        keys = session_keys(Namespace(self._client.namespace), session_id(name))
        asked = [("HGET", keys.meta, "last_seq"), ("ZRANGE", keys.ids, 0, -1)]
        last_seq, ids = await answer(self._client._redis.pipeline(asked))  # noqa: SLF001
        its = [each.decode().removeprefix(f"{self._prefix}-") for each in ids if each]
        forgotten = words.index(its[0]) if its and its[0] in words else 0
        if its:
            seen = self._known(name)
            seen = replace(seen, words=(*words[:forgotten], *its), seq=int(last_seq))
            keep(self._seen, name, seen, SESSIONS)
        return bool(its)

    async def _open(self, name: str, beside: Beside, policy: Policy | str | None) -> None:
        seen = self._known(name)
        if beside == seen.beside and (policy is None or seen.is_open):
            return
        given = None if seen.is_open else policy
        await answer(self._client.open(name, given, **beside.since(seen.beside)))
        keep(self._seen, name, replace(seen, beside=beside, is_open=True), SESSIONS)

    def _turns(
        self, seen: _Seen, messages: Sequence[JsonMessage], words: Sequence[str]
    ) -> list[TurnLike]:
        """What the session lacks of the history."""
        return [
            {"messages": [messages[at]], "turn_id": f"{self._prefix}-{words[at]}"}
            for at in range(len(seen.words), len(words))
        ]

    @contextmanager
    def _begun_anew_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._seen.pop(name, None)  # pushing again stores nothing twice
            raise

    def _note(
        self, name: str, seen: _Seen, words: Sequence[str], pushed: Sequence[Pushed]
    ) -> _Seen:
        """What the session has now: of the history what comes before other turns."""
        known = len(seen.words)
        self.counts.pushed += sum(not one.duplicate for one in pushed)
        seqs = [one.seq for one in pushed]
        before = [seen.seq, *seqs]
        gap = next((at for at, seq in enumerate(seqs) if seq != before[at] + 1), len(seqs))
        seen = replace(seen, words=tuple(words[: known + gap]), seq=before[gap])
        keep(self._seen, name, seen, SESSIONS)
        return seen


def chain(messages: Sequence[JsonMessage]) -> list[str]:
    """For each message a word for it and all before it: the same word, the same history so far."""
    words = [""]
    for message in messages:
        words.append(hashlib.sha256(f"{words[-1]} {key(message)}".encode()).hexdigest()[:32])
    return words[1:]


def _before_calls(messages: Sequence[JsonMessage]) -> int:
    """How many of the messages end where no call waits for its result."""
    tracker, end = CallTracker(), 0
    for at, message in enumerate(messages):
        tracker.feed(message)
        end = end if tracker.open else at + 1
    return end


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
        messages = chat_of(context)
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
