"""A request behind the context that an agent sent last: a provider bills that as cached.

All of it stands as the agent sent it, so there are no marks around what users and tools said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turnmill.dialects.convert import from_chat
from turnmill_worker.compaction.plan import SentContext
from turnmill_worker.summarizers.openai.endpoint import Api, Prompt
from turnmill_worker.summarizers.openai.prompts import Block, Entry, text_of

_FIRST_CHARS: Final = 40
"""Of each message, to find it by."""


def can_be_sent(context: SentContext, api: Api) -> bool:
    """Whether the endpoint takes the tools as the agent told of them: they come first of all."""
    return all(_speaks(tool, api) for tool in context.tools)


def _speaks(tool: Mapping[str, Any], api: Api) -> bool:
    return tool.get("type") == "function" and ("function" in tool) == (api == "chat")


def index_of(entries: Iterable[Entry]) -> Block:
    """The messages that leave, each on a line."""
    first = ((one, " ".join(one.text[:_FIRST_CHARS].split())) for one in entries)
    return Block("messages", "\n".join(f"#{one.seq} {one.role}: {text}" for one, text in first))


def behind(context: SentContext, prompt: Prompt, api: Api) -> Prompt:
    """The same prompt as one message behind the context.

    Without a schema: OpenAI puts one before all else, and nothing would be cached.
    """
    sent = from_chat(context.messages, api)
    said = (text_of("behind_context"), prompt.system, prompt.user)
    tools: Sequence[Mapping[str, Any]] = context.tools
    before, user = sent.messages, "\n\n".join(said)
    return replace(prompt, system=sent.system, user=user, before=before, tools=tools, schema=None)
