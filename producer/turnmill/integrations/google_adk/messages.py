"""ADK's events as turnmill's messages, and back. Pure.

A chat message has no field for thoughts, server-side tools or sounds, so they are left out of it;
the event keeps them, and the model gets them while their turn is word for word.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.adk.events.event import Event

# Of ADK: the words in which an agent is shown what another one did, fenced as no instructions.
from google.adk.flows.llm_flows.contents import _present_other_agent_message
from google.genai import types

from turnmill.contract.call_ids import called
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import UNKNOWN_CALL
from turnmill.contract.marks import FEEDBACK
from turnmill.integrations.shared import call, image, joined, parsed, result

_HIDDEN: Final = ("adk_request_", "adk_framework")
"""Calls that ADK makes up for itself, as to ask for a credential: no model sees them."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_URLS: Final = ("http://", "https://")


def to_chat(event: Event) -> list[JsonMessage]:
    """The event as chat messages: none where no model of the main conversation sees it.

    What agents on branches do at the same time is told, as ADK tells other agents of it.
    """
    if event.partial or event.isolation_scope or event.content is None:
        return []
    if event.branch and event.author != "user":
        told = _present_other_agent_message(event)
        parts = (told.content.parts if told and told.content else None) or []
        content = _content(parts)
        return [{"role": "user", "name": FEEDBACK, "content": content}] if content else []
    parts = [part for part in event.content.parts or () if not _is_hidden(part)]
    if event.content.role == "model":
        return _said(parts, event.author)
    return [*_results(parts), *_asked(parts, event.author)]


def _is_hidden(part: types.Part) -> bool:
    call = part.function_call or part.function_response
    return bool(call and (call.name or "").startswith(_HIDDEN))


def _said(parts: Sequence[types.Part], author: str) -> list[JsonMessage]:
    content = _content(parts)
    calls = [
        call(each.id, each.name, _json(each.args or {}))
        for each in (part.function_call for part in parts if part.function_call)
    ]
    if not content and not calls:
        return []
    # An assistant's message is text; what else a model made is only named there.
    texts = (each.get("text") or "[image]" for each in content)
    message: JsonMessage = {"role": "assistant", "content": "".join(texts) or None}
    if _NAME.match(author):
        message["name"] = author
    return [{**message, "tool_calls": calls} if calls else message]


def _results(parts: Iterable[types.Part]) -> list[JsonMessage]:
    found = (part.function_response for part in parts if part.function_response)
    return [result(each.id, _result(each.response)) for each in found]


def _asked(parts: Sequence[types.Part], author: str) -> list[JsonMessage]:
    content = _content(parts)
    if not content:
        return []
    message: JsonMessage = {"role": "user", "content": joined(content)}
    # Only a user's words can be a user's rules.
    return [message if author == "user" else {**message, "name": FEEDBACK}]


def _content(parts: Iterable[types.Part]) -> list[JsonMessage]:
    return [made for part in parts if not part.thought and (made := _part(part))]


def _part(part: types.Part) -> JsonMessage | None:
    blob, file = part.inline_data, part.file_data
    text = part.text or ""
    if blob and blob.data is not None:
        if (blob.mime_type or "").startswith("image/"):
            return image(f"data:{blob.mime_type};base64,{base64.b64encode(blob.data).decode()}")
        text = f"[{blob.mime_type or 'data'}, not kept]"
    elif file and file.file_uri:
        if (file.mime_type or "").startswith("image/") and file.file_uri.startswith(_URLS):
            return image(file.file_uri)
        text = f"[{file.mime_type or 'file'} {file.file_uri}, not kept]"
    elif part.executable_code:
        text = part.executable_code.code or ""
    elif part.code_execution_result:
        text = part.code_execution_result.output or ""
    return {"type": "text", "text": text} if text else None


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _result(response: Mapping[str, Any] | None) -> str:
    # ADK wraps what a tool returns if it is no dict.
    wrapped = list(response) == ["result"] if response else False
    text = response["result"] if response and wrapped else None
    return text if isinstance(text, str) else _json(response or {})


Calls = Mapping[str, tuple[str, str]]
"""By the ids of calls: the tool's name, and the agent that called it."""


def calls_of(messages: Iterable[JsonMessage]) -> Calls:
    """What the messages call."""
    return {
        call["id"]: (called(call)[0], message.get("name") or "")
        for message in messages
        for call in message.get("tool_calls") or ()
        if called(call)[0] != UNKNOWN_CALL
    }


def seen_by(agent: str, event: Event, calls: Calls) -> types.Content | None:
    """The event as ADK shows it to an agent: another agent's is told of, in words."""
    answered = {calls.get(each.id or "", ("", ""))[1] for each in event.get_function_responses()}
    if event.author in (agent, "user") and answered <= {agent, ""}:
        return event.content
    told = _present_other_agent_message(event)
    return told.content if told else None


def from_chat(messages: Iterable[JsonMessage], calls: Calls, agent: str) -> list[types.Content]:
    """The chat messages as contents; results of one batch are one content.

    What another than ``agent`` said is told in words.
    """
    made: list[types.Content] = []
    authors = {call_id: author for call_id, (_, author) in calls.items()}
    for message in messages:
        who = authors.get(message.get("tool_call_id") or "", message.get("name") or "")
        authors |= {call["id"]: who for call in message.get("tool_calls") or ()}
        content = _made(message, calls)
        if who not in ("", agent, FEEDBACK):
            told = _present_other_agent_message(Event(author=who, content=content))
            made.append((told and told.content) or content)
        elif made and _is_results(made[-1]) and message["role"] == "tool":
            made[-1].parts = [*(made[-1].parts or ()), *(content.parts or ())]
        else:
            made.append(content)
    return made


def _is_results(content: types.Content) -> bool:
    return all(part.function_response for part in content.parts or ())


def _made(message: JsonMessage, calls: Calls) -> types.Content:
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        name, _ = calls.get(call_id, (UNKNOWN_CALL, ""))
        answer = types.FunctionResponse(id=call_id, name=name, response=_answer(message["content"]))
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    parts = list(_parts(message.get("content")))
    for each in message.get("tool_calls") or ():
        named, arguments = called(each)
        name, _ = calls.get(each["id"], (named, ""))
        args = _object(arguments)
        made = types.FunctionCall(id=each["id"], name=name, args=args)
        parts.append(types.Part(function_call=made))
    role = "model" if message["role"] == "assistant" else "user"
    return types.Content(role=role, parts=parts)


def _parts(content: str | Sequence[JsonMessage] | None) -> Iterable[types.Part]:
    if isinstance(content, str):
        yield types.Part(text=content)
        return
    for each in content or ():
        url = (each.get("image_url") or {}).get("url", "")
        if url.startswith("data:"):
            head, _, data = url.partition(",")
            media = head.removeprefix("data:").partition(";")[0]
            yield types.Part.from_bytes(data=base64.b64decode(data), mime_type=media)
        elif url:
            yield types.Part.from_uri(file_uri=url, mime_type="image/*")
        else:
            yield types.Part(text=each.get("text") or "")


def _answer(content: str | Sequence[JsonMessage]) -> dict[str, Any]:
    text = content if isinstance(content, str) else " ".join(p.get("text") or "" for p in content)
    return _object(text) or {"result": text}


def _object(text: str) -> dict[str, Any]:
    try:
        found = parsed(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
