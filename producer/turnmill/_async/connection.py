"""How the asynchronous client talks to Redis: commands, scripts, pipelines; errors are typed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from redis import RedisError
from redis.exceptions import NoScriptError

from turnmill._async.waiting import Redis, connect
from turnmill.commands import Call, Command
from turnmill.requests import look_s
from turnmill.transport import translate

__all__ = ["AsyncConnection"]


class AsyncConnection:
    """Connections to one Redis: made here for a URL, or the caller's client.

    Every method raises ``TurnmillError`` for whatever redis-py raised.
    """

    def __init__(self, redis: str | Redis, timeout_s: float) -> None:
        self._owned = isinstance(redis, str)
        self.redis: Any = connect(redis, timeout_s) if isinstance(redis, str) else redis
        self._registered_s: float | None = None

    @property
    def look_s(self) -> float:
        """Seconds of one blocking look."""
        return look_s(self.redis)

    async def run(self, call: Call) -> Any:
        """The script's reply, sending its source where the server does not have it."""
        try:
            try:
                return await self.redis.execute_command("EVALSHA", call.script.sha, *call.words)
            except NoScriptError:
                return await self.redis.execute_command("EVAL", call.script.source, *call.words)
        except RedisError as error:
            raise translate(error) from error

    async def plain(self, command: Command) -> Any:
        """The reply to one command."""
        try:
            return await self.redis.execute_command(*command)
        except RedisError as error:
            raise translate(error) from error

    async def register(self, command: Command, *, every_s: float = 0.0) -> None:
        """Send the command, unless it was sent less than ``every_s`` ago."""
        now = time.monotonic()
        if self._registered_s is None or now - self._registered_s >= every_s:
            await self.plain(command)
            self._registered_s = now

    async def pipeline(
        self, commands: Sequence[Command], *, raise_on_error: bool = True
    ) -> list[Any]:
        """The replies to commands sent together, each error raised or in its reply's place."""
        try:
            async with self.redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                replies = await pipe.execute(raise_on_error=raise_on_error)
        except RedisError as error:
            raise translate(error) from error
        return [translate(each) if isinstance(each, RedisError) else each for each in replies]

    async def whole(
        self, commands: Sequence[Command], is_torn: Callable[[Sequence[Any]], bool]
    ) -> list[Any]:
        """The replies to commands sent together, again until no commit came between them."""
        replies = await self.pipeline(commands)
        while is_torn(replies):
            replies = await self.pipeline(commands)
        return replies

    async def close(self) -> None:
        """Close the connections made here."""
        if self._owned:
            await self.redis.aclose()
