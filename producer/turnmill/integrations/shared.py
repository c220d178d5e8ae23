"""What the integrations share: tokens beside the messages, calls of either client, originals."""

from __future__ import annotations

import asyncio
import hashlib
import json
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from inspect import isawaitable
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from turnmill.client._async.client import AsyncContextClient
from turnmill.client._sync.client import ContextClient
from turnmill.contract import call_ids
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import bound_turn
from turnmill.contract.legality import UNKNOWN_CALL
from turnmill.contract.shorten import shorten
from turnmill.read.context import Context


class Beside(NamedTuple):
    """The system prompt and the schemas of the tools."""

    prompt: str = ""
    tools: tuple[dict[str, Any], ...] = ()

    def since(self, told: Beside) -> dict[str, Any]:
        """The arguments of ``open`` for a session that was told ``told``; None leaves what it has.

        Without a prompt the session's stays: a request may have its prompt elsewhere.
        """
        tools = None if self.tools == told.tools else self.tools
        return {"system_prompt": self.prompt or None, "tools": tools}


def function(name: str, description: str, parameters: object) -> dict[str, Any]:
    """The schema of a tool, as OpenAI's chat completions have it."""
    told = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": told}


T = TypeVar("T")

Client = ContextClient | AsyncContextClient


async def answer(called: Awaitable[T] | T) -> T:
    """What a client's method returned, awaited where the client is asynchronous."""
    if isawaitable(called):
        awaited: T = await called
        return awaited
    return called


def run(client: Client, steps: Coroutine[Any, Any, T]) -> T:
    """The result of steps that call a synchronous client, and so never wait.

    Raises:
        TypeError: the client is asynchronous.
    """
    try:
        if isinstance(client, AsyncContextClient):
            raise TypeError(
                "client: an AsyncContextClient serves asynchronous calls only; "
                "a ContextClient serves both"
            )
        steps.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()
    raise RuntimeError("a synchronous client was awaited")


async def arun(client: Client, steps: Coroutine[Any, Any, T]) -> T:
    """The result of the steps; those of a synchronous client run in a thread."""
    if isinstance(client, AsyncContextClient):
        return await steps
    return await asyncio.to_thread(run, client, steps)


NO_ID: Final = "call"
"""Of calls that a server gave no id, and of their results: so these answer them in order."""


def call(call_id: str | None, name: str | None, arguments: str) -> JsonMessage:
    """A call of a tool, as the chat API has it; also where a model named none."""
    function = {"name": name or UNKNOWN_CALL, "arguments": arguments}
    return {"id": call_id or NO_ID, "type": "function", "function": function}


def as_function(each: JsonMessage) -> JsonMessage:
    """A call as one of a function; a custom tool's, of another agent, is none."""
    return each if "function" in each else call(each["id"], *call_ids.called(each))


def parsed(text: str) -> Any:
    """What the JSON says.

    Raises:
        ValueError: it is none, or nested deeper than any reader follows.
    """
    return decode_json(text.encode("utf-8", "surrogatepass"))


def result(call_id: str | None, content: str | list[JsonMessage]) -> JsonMessage:
    """The result of a call, as the chat API has it."""
    return {"role": "tool", "tool_call_id": call_id or NO_ID, "content": content}


def chat_of(context: Context) -> list[JsonMessage]:
    """The context in chat's shape, with names as they were pushed: a framework has its own way."""
    pushed = context.messages if context.chat is None else context.chat
    both = zip(context.messages_for("chat"), pushed, strict=True)
    return [{**shown, "name": was["name"]} if was.get("name") else shown for shown, was in both]


def image(url: str, detail: object = None) -> JsonMessage:
    """An image as a part of a message."""
    shown = {"url": url, "detail": detail} if isinstance(detail, str) else {"url": url}
    return {"type": "image_url", "image_url": shown}


def joined(parts: list[JsonMessage]) -> str | list[JsonMessage]:
    """The parts of a message, or their text where they are no more than one."""
    is_text = [part["type"] for part in parts] in ([], ["text"])
    return "".join(part["text"] for part in parts) if is_text else parts


def called(messages: Iterable[JsonMessage]) -> dict[str, str]:
    """The tools' names by the ids of their calls."""
    return {
        call["id"]: call_ids.called(call)[0]
        for message in messages
        for call in message.get("tool_calls") or ()
    }


def bound(messages: Sequence[JsonMessage]) -> int:
    """The most tokens that the messages are."""
    return bound_turn(encode_json({"messages": messages}))


def fitting(
    groups: Sequence[Sequence[JsonMessage]], most: int
) -> list[Sequence[JsonMessage]] | None:
    """The groups of messages, their longest texts cut to at most so many tokens together.

    None where texts are not what makes them large.
    """
    shorter = shorten([message for group in groups for message in group], most, bound)
    if shorter is None:
        return None
    left = iter(shorter)
    return [list(islice(left, len(group))) for group in groups]


def keep(known: OrderedDict[str, T], name: str, value: T, most: int) -> None:
    """Remember this as the newest of so many."""
    known[name] = value
    known.move_to_end(name)
    while len(known) > most:
        known.popitem(last=False)


def key(message: JsonMessage) -> str:
    """A hash of the content: the same in every process."""
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()


def originals(
    keys: Sequence[str], owners: Sequence[int], context: Sequence[JsonMessage]
) -> list[int | JsonMessage]:
    """The context as positions in the history, and messages to make anew, in order.

    ``keys`` and ``owners`` belong to the chat messages that the history was made into: the ``key``
    of each, and the position in the history of what it is a part of. A position is returned only
    where all its chat messages are. One that had none comes back where both its neighbours do.
    """
    sizes = Counter(owners)
    sources = _sources(keys, context)
    found: list[int | JsonMessage] = []
    at = 0
    while at < len(context):
        owner = _owner(owners, sizes, sources, at)
        if owner is None:
            found.append(context[at])
            at += 1
            continue
        if found and isinstance(before := found[-1], int):
            between = range(before + 1, owner)
            found += [] if any(silent in sizes for silent in between) else between
        found.append(owner)
        at += sizes[owner]
    return found


def _sources(keys: Sequence[str], context: Sequence[JsonMessage]) -> list[int]:
    """For each context message, the newest chat message it can be, in order; else -1."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(keys):
        places.setdefault(word, []).append(at)
    found: list[int] = []
    before = len(keys)
    for message in reversed(context):
        here = places.get(key(message), [])
        count = bisect_left(here, before)
        before = here[count - 1] if count else before
        found.append(here[count - 1] if count else -1)
    return found[::-1]


def _owner(
    owners: Sequence[int], sizes: Counter[int], sources: Sequence[int], at: int
) -> int | None:
    """The message of the history that begins here in the context, if all of it is there."""
    start = sources[at]
    if start < 0 or (start and owners[start - 1] == owners[start]):
        return None
    end = sizes[owners[start]]
    is_whole = list(sources[at : at + end]) == list(range(start, start + end))
    return owners[start] if is_whole else None
