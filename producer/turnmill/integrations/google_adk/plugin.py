"""What stands between ADK's events and the model."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from turnmill.contract.context import JsonMessage
from turnmill.contract.tools import bound_tools, tools_body
from turnmill.integrations.google_adk.messages import calls_of, from_chat, seen_by, to_chat
from turnmill.integrations.google_adk.sessions import Owner, TurnmillSessionService, owner_of
from turnmill.integrations.shared import function

_TOLD: Final = "For context: "
"""How ADK begins what it tells an agent of others."""

_OPENING: Final = 90
"""Tokens of what ADK says before it: 83 in o200k_base, measured."""

_FENCE: Final = 40
"""Tokens around each part: 25 to 34 with short names of agents and tools, measured."""

_STEP: Final = 256
"""Fences are reckoned in steps: what a projection shows changes with them."""


def fence_tokens(contents: Sequence[types.Content]) -> int:
    """The tokens that fences in the contents have at most, a little more; 0 without any."""
    told = [content.parts or [] for content in contents if is_told(content)]
    tokens = sum(_OPENING + _FENCE * (len(parts) - 1) for parts in told)
    return -(-tokens // _STEP) * _STEP


def more_fences(reckoned: int, found: int) -> int:
    """What to reckon with next: not all that were found, for a smaller context has fewer."""
    return reckoned + max((found - reckoned) // (4 * _STEP), 1) * _STEP


def is_told(content: types.Content) -> bool:
    """Whether it is what ADK tells an agent of another one."""
    parts = content.parts or []
    return bool(parts) and (parts[0].text or "").startswith(_TOLD)


def tools_of(config: types.GenerateContentConfig) -> list[dict[str, Any]]:
    """The schemas of a request's tools, as turnmill counts them."""
    found: list[dict[str, Any]] = []
    for tool in config.tools or ():
        if not isinstance(tool, types.Tool):
            continue
        for each in tool.function_declarations or ():
            schema = each.parameters_json_schema or (
                each.parameters.model_dump(mode="json", exclude_none=True)
                if each.parameters
                else {}
            )
            found.append(function(each.name or "", each.description or "", schema))
        others = tool.model_dump(exclude={"function_declarations"}, exclude_none=True)
        # What runs at the provider has no schema here.
        found += [{"type": name} for name in others]
    return found


def restore(
    contents: Sequence[types.Content],
    events: Sequence[Event],
    context: Sequence[JsonMessage],
    agent: str,
) -> list[types.Content]:
    """The context in place of the contents that ADK made of the events for an agent.

    Contents that no event has, as instructions that ADK adds to a request, keep their place.
    """
    said = [(at, message) for at, event in enumerate(events) for message in to_chat(event)]
    # The context also has calls of events that this run did not ask for.
    calls = {**calls_of(context), **calls_of(message for _, message in said)}
    seen = [seen_by(agent, event, calls) for event in events]
    places = _newest([_mark(each) for each in contents], [_mark(each) for each in seen])
    made: list[tuple[int, types.Content]] = []
    anew: list[JsonMessage] = []
    for item in [*_originals(said, context), -1]:
        if not isinstance(item, int):
            anew.append(item)
            continue
        made += [(-1, content) for content in from_chat(anew, calls, agent)]
        anew = []
        content = seen[item] if item >= 0 else None
        if content is not None:
            at = places[item]
            made.append((at, contents[at] if at >= 0 else content.model_copy(deep=True)))
    if _are_nameless(contents):
        made = [(at, content if at >= 0 else _nameless(content)) for at, content in made]
    return list(_with_added(contents, made, set(places)))


def _originals(
    said: Sequence[tuple[int, JsonMessage]], context: Sequence[JsonMessage]
) -> Iterator[int | JsonMessage]:
    """The context as positions of events, and messages to make anew, in order.

    ``said`` has the events' messages, each with the position of its event.
    """
    sources = _newest([_key(message) for _, message in said], [_key(each) for each in context])
    sizes = Counter(at for at, _ in said)
    at = 0
    while at < len(context):
        start = sources[at]
        owner = said[start][0] if start >= 0 else -1
        size = sizes[owner]
        is_whole = sources[at : at + size] == list(range(start, start + size))
        if start < 0 or not is_whole or (start and said[start - 1][0] == owner):
            yield context[at]
            at += 1
        else:
            yield owner
            at += size


def _newest(have: Sequence[str], want: Sequence[str]) -> list[int]:
    """For each wanted word the newest place of it, in order; -1 where there is none."""
    known: dict[str, list[int]] = {}
    for at, word in enumerate(have):
        known.setdefault(word, []).append(at)
    found: list[int] = []
    before = len(have)
    for word in reversed(want):
        here = known.get(word, [])
        count = bisect_left(here, before)
        before = here[count - 1] if count else before
        found.append(here[count - 1] if count else -1)
    return found[::-1]


def _key(message: JsonMessage) -> str:
    return json.dumps(message, sort_keys=True)


def _mark(content: types.Content | None) -> str:
    """What stays the same when ADK makes a request's content of an event's."""
    if content is None:
        return ""
    ids: dict[str, bool | set[str]] = {"function_call": {"id"}, "function_response": {"id"}}
    parts = [
        repr(part.model_dump(exclude={"thought": True, **ids}, exclude_none=True))
        for part in content.parts or ()
    ]
    return "\n".join([content.role or "", *parts])


def _with_added(
    contents: Sequence[types.Content], made: Sequence[tuple[int, types.Content]], known: set[int]
) -> Iterator[types.Content]:
    added = [at for at, each in enumerate(contents) if at not in known and _is_added(each)]
    for at, content in made:
        yield from (contents[each] for each in added if each < at)
        added = [each for each in added if each > at] if at >= 0 else added
        yield content
    yield from (contents[each] for each in added)


def _is_added(content: types.Content) -> bool:
    parts = content.parts or []
    is_called = any(part.function_call or part.function_response for part in parts)
    return content.role == "user" and not is_told(content) and not is_called


def _are_nameless(contents: Sequence[types.Content]) -> bool:
    """Whether ADK took the ids off calls and results, as it does for Gemini."""
    parts = [part for content in contents for part in content.parts or ()]
    found = [each for part in parts if (each := part.function_call or part.function_response)]
    return bool(found) and not any(each.id for each in found)


def _nameless(content: types.Content) -> types.Content:
    made = content.model_copy(deep=True)
    for part in made.parts or ():
        if part.function_call:
            part.function_call.id = None
        if part.function_response:
            part.function_response.id = None
    return made


def is_legal(contents: Sequence[types.Content]) -> bool:
    """Whether each batch of calls is answered right behind it, and each result has its call."""
    waiting: list[tuple[str | None, str | None]] = []
    for content in contents:
        parts = content.parts or ()
        results = [part.function_response for part in parts if part.function_response]
        answers = [(each.id, each.name) for each in results]
        if waiting and not answers:
            return False
        for answer in answers:
            if answer not in waiting:
                return False
            waiting.remove(answer)
        calls = [part.function_call for part in parts if part.function_call]
        waiting += [(each.id, each.name) for each in calls]
    return not waiting


log: logging.Logger = logging.getLogger(__name__)


SESSIONS = 1024
"""Sessions whose prompts and tools are remembered here; a forgotten one only costs a call."""

_Known = TypeVar("_Known")


class _Told(NamedTuple):
    """How long the prompt is that a session was told of, and how many tokens its tools are."""

    prompt: int = 0
    tools: int = 0


@dataclass(slots=True)
class ContextCounts:
    """What became of the model requests.

    Attributes:
        whole: sent as they were, because nothing had to be left out.
        curated: sent with the session's context.
        failed: sent as they were, because something failed.
        diverged: of these, because the session's newest turn is not the newest event.
    """

    whole: int = 0
    curated: int = 0
    failed: int = 0
    diverged: int = 0


class Diverged(Exception):
    """The session has gone on without this run's events."""


class Illegal(Exception):
    """What was made of the context has calls without results, or results without calls."""


class ContextPlugin(BasePlugin):
    """Sends the session's context to the model, in place of all its events.

    ``App(name=…, root_agent=…, plugins=[ContextPlugin(service)])``. It never raises into the agent:
    it changes nothing on an error. Agents that ask for no history, and those on a branch or with a
    task of their own, get what ADK gives them.
    """

    def __init__(self, service: TurnmillSessionService, name: str = "turnmill_context") -> None:
        super().__init__(name)
        self.counts: ContextCounts = ContextCounts()
        self._service = service
        self._told: dict[str, _Told] = {}
        self._fences: dict[str, int] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Replace the request's contents; the session is left as it is."""
        invocation = callback_context._invocation_context  # noqa: SLF001 - ADK shows the branch nowhere else
        if _is_apart(invocation, llm_request):
            return None
        try:
            llm_request.contents = await self._curated(invocation, llm_request)
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            self.counts.failed += 1
            self.counts.diverged += isinstance(error, Diverged)
            # Only the type: the message of another library's error may quote the conversation.
            log.warning("contents left as they are: %s", type(error).__name__)
        return None

    async def _curated(
        self, invocation: InvocationContext, request: LlmRequest
    ) -> list[types.Content]:
        session = invocation.session
        owner = owner_of(session)
        await self._tell(owner, request)
        agent = invocation.agent.name if invocation.agent else ""
        key = f"{owner.name} {agent}"
        fences = self._fences.pop(key, 0)
        while True:
            context = await self._service.client.read(owner.name, beside=fences)
            seq, event_id = await self._service.store.newest(owner)
            newest = next((each.id for each in reversed(session.events) if to_chat(each)), event_id)
            if context.last_seq != seq or newest != event_id:
                raise Diverged
            contents = request.contents
            said = context.messages_for("chat")[1 if context.system_prompt else 0 :]
            # Results may be elided, or were cut when they were pushed, with all turns there.
            is_whole = not context.watermark and context.projection is None
            is_whole = is_whole and said == [m for e in session.events for m in to_chat(e)]
            if not is_whole:
                contents = restore(request.contents, session.events, said, agent)
            # Only as this agent sees them is it known what is fenced; a smaller context has less.
            if (found := fence_tokens(contents)) <= fences:
                break
            fences = more_fences(fences, found)
        _keep(self._fences, key, found)
        if not is_whole and not is_legal(contents):
            raise Illegal
        self.counts.whole += is_whole
        self.counts.curated += not is_whole
        return contents

    async def _tell(self, owner: Owner, request: LlmRequest) -> None:
        """Have instructions and tools counted against the limit: of all agents, the longest."""
        told = self._told.get(owner.name, _Told())
        prompt, tools = request.config.system_instruction, tools_of(request.config)
        found = _Told(len(prompt) if isinstance(prompt, str) else 0, bound_tools(tools_body(tools)))
        longest = _Told(max(told.prompt, found.prompt), max(told.tools, found.tools))
        if longest == told:
            return
        await self._service.client.open(
            owner.name,
            system_prompt=prompt
            if isinstance(prompt, str) and found.prompt > told.prompt
            else None,
            tools=tools if found.tools > told.tools else None,
        )
        _keep(self._told, owner.name, longest)


def _is_apart(invocation: InvocationContext, request: LlmRequest) -> bool:
    asks_for_none = getattr(invocation.agent, "include_contents", "default") != "default"
    is_told_elsewhere = bool(getattr(request, "previous_interaction_id", None))
    scope = getattr(invocation, "isolation_scope", None)
    return bool(asks_for_none or is_told_elsewhere or invocation.branch or scope)


def _keep(known: dict[str, _Known], key: str, value: _Known) -> None:
    if len(known) >= SESSIONS:
        known.clear()
    known[key] = value
