"""Reading contexts: this part of a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnmill._async.connection import AsyncConnection
from turnmill.commands import Command, Commands
from turnmill.context import Context
from turnmill.contract.correction import LastReads
from turnmill.contract.errors import TurnmillError
from turnmill.contract.rules import Rule
from turnmill.image_cache import ImageCache
from turnmill.lately_read import LatelyRead
from turnmill.read_reply import Known, known_since, read_context, whole_context

__all__ = ["AsyncReading"]

_Found = tuple[Known, Context]
"""What is known of a session, and the context that was made of it."""


class AsyncReading:
    """How a client reads: what is new since its last read of a session, where that is enough."""

    _commands: Commands
    _redis: AsyncConnection
    _images: ImageCache
    _reads: LastReads
    _lately: LatelyRead

    async def read(self, session: str, *, beside: int = 0) -> Context:
        """The context as of now: never waits for a worker, never over the limit.

        One round trip, two for new images; ``beside`` are tokens that the session is not told of.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        return await self._shown(session, beside, await self._found(session, beside))

    async def rules(self, session: str) -> tuple[Rule, ...]:
        """The user's rules in force, oldest first; raises what ``read`` does.

        Workers find them when they cover a turn; what is marked as a rule is one at once.
        """
        return self._commands.rules(session, await self._redis.whole(*self._view(session)))

    def _view(self, session: str) -> tuple[list[Command], Callable[[Sequence[Any]], bool]]:
        return self._commands.read(session), self._commands.is_torn

    def _known(self, session: str) -> Known | None:
        """What was known, if the next read need ask for no more than what is new."""
        before = self._lately.take(session)
        return None if before is None or before.since is None else before

    def _know_again(self, before: Known | None) -> None:
        """Put back what was known: nothing came of what it was taken for."""
        if before is not None:
            self._lately.keep(before)

    def _asked(self, session: str, before: Known | None) -> list[Command]:
        """What a read asks for."""
        if before is None or before.since is None:
            return self._commands.read(session)
        return self._commands.read_on(session, before.since, before.awaited)

    async def _found(self, session: str, beside: int) -> _Found:
        before = self._known(session)
        reply = await self._redis.whole(self._asked(session, before), self._commands.is_torn)
        return await self._made(session, beside, before, reply)

    async def _heard(
        self, session: str, beside: int, before: Known | None, replies: Sequence[Any]
    ) -> _Found:
        """The same from replies that came with others; read again if a commit came between them."""
        for reply in replies:
            if isinstance(reply, TurnmillError):
                raise reply
        if self._commands.is_torn(replies):
            asked = self._asked(session, before)
            replies = await self._redis.whole(asked, self._commands.is_torn)
        return await self._made(session, beside, before, replies)

    async def _made(
        self, session: str, beside: int, before: Known | None, reply: Sequence[Any]
    ) -> _Found:
        """What is known now, and the context of it; read whole where what is new is not enough."""
        if before is not None:
            known = known_since(before, reply)
            context = known and read_context(known, beside)
            if known and context:
                return known, context
            reply = await self._redis.whole(*self._view(session))
        known = self._commands.known(session, reply)
        return known, whole_context(known, beside)

    async def _shown(self, session: str, beside: int, found: _Found) -> Context:
        """The context with its images."""
        context, urls = await self._with_images(*found)
        if None in urls.values():
            # Let go between the two trips, by a compaction: then it is not in the context now.
            context, urls = await self._with_images(*await self._found(session, beside))
        whole = context.projection is None
        self._reads.note(session, context.version, context.last_seq, is_whole=whole)
        return context.shown(urls)

    async def _with_images(
        self, known: Known, context: Context
    ) -> tuple[Context, dict[str, str | None]]:
        """The context with references for its images, and their data URLs by reference."""
        self._lately.keep(known.after(context))
        urls, unseen = self._images.seen(known.images(context))
        if unseen:
            found = await self._redis.pipeline(self._commands.fetch(context.session, unseen))
            urls |= self._images.fetched(unseen, found)
        return context, urls
