"""Sessions whose compactions keep failing: listing them, and trying them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmill.commands.calls import Base, Call, Command
from turnmill.contract.keys import SHARDS, session_keys, shard_keys
from turnmill.contract.names import SessionId
from turnmill.contract.results import ParkedSession
from turnmill.read_reply import to_int

__all__ = ["Parking"]

_FIELDS = (
    *("parked_at", "failures", "error"),
    *("system_tokens", "tools_tokens", "context_tokens", "tail_tokens"),
)


class Parking(Base):
    """What a person does about sessions that are stuck."""

    def list_parked(self) -> list[Command]:
        """The names of all parked sessions."""
        keys = [shard_keys(self.namespace, shard).parked for shard in range(SHARDS)]
        return [("ZRANGE", key, 0, -1) for key in keys]

    @staticmethod
    def parked_names(replies: Sequence[Sequence[bytes]]) -> list[SessionId]:
        """The names in the replies."""
        return [SessionId(name.decode()) for reply in replies for name in reply]

    def look_at_parked(self, names: Sequence[SessionId]) -> list[Command]:
        """What is known about these sessions."""
        keys = [session_keys(self.namespace, name).meta for name in names]
        return [("HMGET", key, *_FIELDS) for key in keys]

    @staticmethod
    def parked(names: Sequence[SessionId], replies: Sequence[Sequence[Any]]) -> list[ParkedSession]:
        """The sessions that are still parked, the longest parked first."""
        found = [
            ParkedSession(
                session=name,
                since_ms=to_int(at),
                failures=to_int(failures),
                error=(error or b"").decode("utf-8", "replace"),
                tokens=sum(to_int(part) for part in tokens),
            )
            for name, (at, failures, error, *tokens) in zip(names, replies, strict=True)
            if at is not None
        ]
        return sorted(found, key=lambda each: (each.since_ms, each.session))

    def retry(self, session: str) -> Call:
        """Let the workers compact the session again."""
        return self._call("retry", session)

    def retried(self, session: str, reply: int | None) -> bool:
        """Whether the session was parked.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        return bool(reply)
