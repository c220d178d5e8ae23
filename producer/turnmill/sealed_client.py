"""A redis-py client that seals secrets in what it sends, and opens what is sealed in replies."""

from __future__ import annotations

from typing import Any

import redis
from redis.client import Pipeline

from turnmill.contract.sealing import Cipher, opened, place_of, sealed

__all__ = ["client_of"]


def client_of(pool: redis.ConnectionPool, cipher: Cipher | None) -> redis.Redis:
    """A client over the pool, which is closed with it; a plain one without a cipher."""
    if cipher is None:
        return redis.Redis.from_pool(pool)
    made = _Sealed.from_pool(pool)
    made.cipher = cipher  # type: ignore[attr-defined]  # its stub knows no subclass
    return made


class _Sealed(redis.Redis):
    cipher: Cipher

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """The reply, opened."""
        reply = super().execute_command(*sealed(self.cipher, args), **options)  # type: ignore[no-untyped-call]
        return opened(self.cipher, reply, place_of(args))

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:  # noqa: FBT001, FBT002 - redis-py's
        """One whose commands are sealed, too."""
        made = _SealedPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        made.cipher = self.cipher
        return made


class _SealedPipeline(Pipeline):
    cipher: Cipher

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Pipeline:
        """Queue the command, sealed."""
        return super().pipeline_execute_command(*sealed(self.cipher, args), **options)

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's
        """The replies, opened."""
        places = [place_of(args) for args, _ in self.command_stack]
        replies = super().execute(raise_on_error)
        return [
            opened(self.cipher, reply, place) for reply, place in zip(replies, places, strict=True)
        ]
