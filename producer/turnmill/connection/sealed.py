"""redis-py clients that seal secrets in what they send, and open what is sealed in replies."""

from __future__ import annotations

from typing import Any

import redis
from redis.client import Pipeline

from turnmill.connection.cluster import ClusterClient, ClusterPipeline, refuse_transaction
from turnmill.contract.sealing import Cipher, opened, place_of, sealed


class _Client:
    """What is the same for one server and for a cluster."""

    cipher: Cipher

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """The reply, opened."""
        reply = super().execute_command(*sealed(self.cipher, args), **options)  # type: ignore[misc]  # of redis-py
        return opened(self.cipher, reply, place_of(args))


class _Pipeline:
    cipher: Cipher

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue the command, sealed."""
        return super().pipeline_execute_command(*sealed(self.cipher, args), **options)  # type: ignore[misc]  # of redis-py

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's
        """The replies, opened."""
        places = [place_of(args) for args, _ in self.command_stack]  # type: ignore[attr-defined]  # of redis-py
        replies = super().execute(raise_on_error)  # type: ignore[misc]
        return [opened(self.cipher, *each) for each in zip(replies, places, strict=True)]


class _SealedPipeline(_Pipeline, Pipeline):
    """A pipeline to one server."""


class _SealedClusterPipeline(_Pipeline, ClusterPipeline):
    """A pipeline to a cluster."""


class SealedClient(_Client, redis.Redis):
    """A client of one server, or of the master that Sentinels know."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:  # noqa: FBT001, FBT002 - redis-py's
        """One whose commands are sealed, too."""
        callbacks = self.response_callbacks
        made = _SealedPipeline(self.connection_pool, callbacks, transaction, shard_hint)
        made.cipher = self.cipher
        return made


class SealedCluster(_Client, ClusterClient):
    """A client of a cluster."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:  # noqa: FBT001, FBT002 - redis-py's
        """One whose commands are sealed, too."""
        refuse_transaction(is_one=transaction)
        made = _SealedClusterPipeline(self, shard_hint)
        made.cipher = self.cipher
        return made
