# Generated from _async/reading.py: change that, then run `make sync`.
"""Reading contexts: this part of a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnmill._sync.connection import Connection
from turnmill.commands import Command, Commands
from turnmill.context import Context
from turnmill.contract.correction import LastReads
from turnmill.contract.rules import Rule
from turnmill.image_cache import ImageCache
from turnmill.lately_read import LatelyRead
from turnmill.read_reply import Known, known_since, read_context, whole_context

__all__ = ["Reading"]


class Reading:
    """How a client reads: what is new since its last read of a session, where that is enough."""

    _commands: Commands
    _redis: Connection
    _images: ImageCache
    _reads: LastReads
    _lately: LatelyRead

    def read(self, session: str, *, beside: int = 0) -> Context:
        """The context as of now: never waits for a worker, never over the limit.

        One round trip, two for new images; ``beside`` are tokens that the session is not told of.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        context, urls = self._look(session, beside)
        if None in urls.values():
            # Let go between the two trips, by a compaction: then it is not in the context now.
            context, urls = self._look(session, beside)
        whole = context.projection is None
        self._reads.note(session, context.version, context.last_seq, is_whole=whole)
        return context.shown(urls)

    def rules(self, session: str) -> tuple[Rule, ...]:
        """The user's rules in force, oldest first; raises what ``read`` does.

        Workers find them when they cover a turn; what is marked as a rule is one at once.
        """
        return self._commands.rules(session, self._redis.whole(*self._view(session)))

    def _view(self, session: str) -> tuple[list[Command], Callable[[Sequence[Any]], bool]]:
        return self._commands.read(session), self._commands.is_torn

    def _look(self, session: str, beside: int) -> tuple[Context, dict[str, str | None]]:
        """The context with references for its images, and their data URLs by reference."""
        known, context = self._read_on(session, beside) or self._read_whole(session, beside)
        self._lately.keep(known.after(context))
        urls, unseen = self._images.seen(known.images(context))
        if unseen:
            found = self._redis.pipeline(self._commands.fetch(session, unseen))
            urls |= self._images.fetched(unseen, found)
        return context, urls

    def _read_on(self, session: str, beside: int) -> tuple[Known, Context] | None:
        """What is known, with what is new; None where that is not enough."""
        before = self._lately.take(session)
        if before is None or before.since is None:
            return None
        asked = self._commands.read_on(session, before.since, before.awaited)
        known = known_since(before, self._redis.whole(asked, self._commands.is_torn))
        context = known and read_context(known, beside)
        return (known, context) if known and context else None

    def _read_whole(self, session: str, beside: int) -> tuple[Known, Context]:
        reply = self._redis.whole(*self._view(session))
        known = self._commands.known(session, reply)
        return known, whole_context(known, beside)
