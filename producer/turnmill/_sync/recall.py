# Generated from _async/recall.py: change that, then run `make sync`.
"""The ``recall`` tool of one session: for an agent's own model, which looks up what it was told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from turnmill.contract.errors import TurnmillError
from turnmill.contract.results import GroundedMemory
from turnmill.recall import NAME, NOT_NOW, answered, asked, chat_schema

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient

__all__ = ["RecallTool"]


class RecallTool:
    """Searches the session's archive, then what the namespace remembers from elsewhere.

    It is a session's ``ContextManager.recall_tool``.
    """

    def __init__(self, client: ContextClient, session: str) -> None:
        self._client = client
        self._session = session

    @property
    def name(self) -> str:
        """What the model calls it by."""
        return NAME

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an item of ``tools``, as chat completions take it."""
        return chat_schema()

    def handle(
        self,
        arguments: str | bytes | Mapping[str, Any] | None,
        *,
        max_chars: int = 6_000,
        timeout_s: float = 5.0,
    ) -> str:
        """The tool's result for a call's arguments, as JSON or decoded: at most so many characters.

        Says in words what is wrong with the arguments, and when nothing can be searched now: it
        raises for neither.
        """
        wanted = asked(arguments)
        if isinstance(wanted, str):
            return wanted
        until = time.monotonic() + timeout_s
        others: tuple[GroundedMemory, ...] = ()
        try:
            # One more than wanted: the session's summary may be among them.
            own = self._found(wanted.query, wanted.limit + 1, self._session, until)
            # What this session said is an answer, also without the rest.
            with suppress(TurnmillError):
                others = self._found(wanted.query, wanted.limit + wanted.others, None, until)
        except TurnmillError:
            return NOT_NOW
        return answered(wanted, self._session, (*own, *others), max_chars)

    def _found(
        self, query: str, k: int, session: str | None, until: float
    ) -> tuple[GroundedMemory, ...]:
        left = max(until - time.monotonic(), 0.0)
        found = self._client.ground(query, k, session=session, timeout_s=left)
        return found.memories
