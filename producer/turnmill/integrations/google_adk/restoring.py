"""A context from turnmill as the contents of a model request. Pure.

A turn that turnmill gives back word for word becomes the very content that ADK made of its event.
Only what turnmill wrote or shortened is made anew.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from google.adk.events.event import Event
from google.genai import types

from turnmill.contract.context import JsonMessage
from turnmill.integrations.google_adk.beside import is_told
from turnmill.integrations.google_adk.messages import calls_of, from_chat, seen_by, to_chat

__all__ = ["is_legal", "restore"]


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
        part.model_dump_json(exclude={"thought": True, **ids}, exclude_none=True)
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
