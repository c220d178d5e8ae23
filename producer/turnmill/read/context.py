"""What a read returns: the context an agent sends to its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from turnmill.contract.context import JsonMessage, Receipt, SummaryEvent
from turnmill.contract.images import inline_images
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.dialects.cache_marks import marked_text
from turnmill.dialects.convert import from_chat, in_own_words
from turnmill.dialects.native import Converted

_ARGUMENTS = {
    "chat": ("messages", ""),
    "anthropic": ("messages", "system"),
    "responses": ("input", "instructions"),
}
"""What a provider calls the messages and the system prompt beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an agent sends to its model.

    Attributes:
        messages: in the session's dialect, ready for its provider: system prompt (in chat; other
            dialects have a field of its own for it, see ``request_for``), summary, pinned turns,
            tail.
        session: whose it is.
        version: of the last commit; 0 when nothing was ever compacted.
        watermark: highest seq the summary covers.
        last_seq: the newest turn in it.
        tokens: of the messages in chat's shape, and of the session's tools; exact when ``exact``,
            else an upper bound. In the provider's tokens, where the agent told of usage. Thinking
            that is left out is counted all the same.
        exact: a worker has counted every turn in it.
        projection: what this read left out to stay under the hard limit, or None.
        summary: what stands for the turns up to the watermark, or ``""``.
        events: summaries of single iterations, oldest first.
        system_prompt: the session's, or ``""`` when it has none.
        dialect: of ``messages``: ``chat``, ``anthropic`` or ``responses``.
        cached_head: how many messages in chat's shape stand before the turns, where the policy
            wants cache marks; else None.
        chat: the messages in chat's shape where ``messages`` have another; else None.
        prefix: names what stands before the turns; thoughts are shown only where it is the same.
    """

    messages: list[JsonMessage] = field(repr=False)
    session: SessionId
    version: Version
    watermark: Seq
    last_seq: Seq
    tokens: int
    exact: bool
    projection: Receipt | None = None
    summary: str = field(default="", repr=False)
    events: tuple[SummaryEvent, ...] = field(default=(), repr=False)
    system_prompt: str = field(default="", repr=False)
    dialect: str = "chat"
    cached_head: int | None = None
    chat: list[JsonMessage] | None = field(default=None, repr=False)
    prefix: str = field(default="", repr=False)

    def messages_for(self, dialect: str) -> list[JsonMessage]:
        """The messages in another dialect; ``left_out_for`` tells what cannot be said in it.

        Raises:
            InvalidInput: there is no such dialect.
        """
        return self.messages if dialect == self.dialect else self._converted(dialect).messages

    def request_for(self, dialect: str = "") -> dict[str, Any]:
        """The arguments of a call of a model: messages and system prompt, by their names there.

        In the session's own dialect by default; raises what ``messages_for`` does.
        """
        found = self._converted(dialect or self.dialect)
        messages, system = _ARGUMENTS[dialect or self.dialect]
        said: Any = found.system
        if said and self.cached_head is not None and system == "system":
            said = marked_text(found.system)
        return {messages: found.messages, **({system: said} if said else {})}

    def left_out_for(self, dialect: str) -> tuple[str, ...]:
        """What the dialect has no way to say, each kind once; raises what ``messages_for`` does."""
        return self._converted(dialect).left_out

    def shown(self, images: Mapping[str, str | None]) -> Self:
        """The context as its provider takes it, with data URLs for its references to images."""
        chat = inline_images(self.messages, images) if images else self.messages
        if self.dialect == "chat" and all(map(in_own_words, chat)):
            return self if chat is self.messages else replace(self, messages=chat)
        messages = from_chat(chat, self.dialect, self.cached_head).messages
        return replace(self, messages=messages, chat=chat)

    def _converted(self, dialect: str) -> Converted:
        chat = self.messages if self.chat is None else self.chat
        return from_chat(chat, dialect, self.cached_head)
