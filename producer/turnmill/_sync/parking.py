# Generated from _async/parking.py: change that, then run `make sync`.
"""Sessions whose compactions keep failing: this part of a client."""

from __future__ import annotations

from typing import Any

from turnmill._sync.connection import Connection
from turnmill.commands import Call, Commands
from turnmill.contract import jobs
from turnmill.contract.names import SessionId
from turnmill.contract.results import ParkedSession
from turnmill.wake import Waker

__all__ = ["Parking"]


class Parking:
    """What a client does about sessions that are stuck."""

    _commands: Commands
    _redis: Connection
    _waker: Waker

    def _list(self, call: Call) -> Any:
        """The reply of a script that may leave work to the sweep."""
        raise NotImplementedError

    def parked(self) -> list[ParkedSession]:
        """Sessions whose compactions keep failing, the longest parked first.

        They can be read and pushed to as before; nothing compacts them until they are retried, or
        their policy or system prompt changes.
        """
        listed = self._redis.pipeline(self._commands.list_parked())
        names = self._commands.parked_names(listed)
        replies = self._redis.pipeline(self._commands.look_at_parked(names)) if names else []
        return self._commands.parked(names, replies)

    def retry(self, session: str) -> bool:
        """Have a parked session compacted again; False when it is not parked.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        reply = self._list(self._commands.retry(session))
        if was_parked := self._commands.retried(session, reply):
            self._waker.wake(self._commands.namespace, SessionId(session), task=jobs.COMPACT)
        return was_parked
