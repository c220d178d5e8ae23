"""How the asynchronous client talks to Redis: commands, scripts, pipelines; errors are typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from turnmill.client._async.trips import trips_to
from turnmill.client.requests import look_s
from turnmill.connection.transport import is_full, server_name, store_full, translate
from turnmill.contract.errors import StoreFull, TurnmillError
from turnmill.contract.scripts import Call, Command, evals
from turnmill.contract.sealing import Cipher, opened, place_of, sealed
from turnmill.push.admission import Admission


class AsyncConnection:
    """Connections to the state store: made here for a URL, or the caller's client.

    Every method raises ``TurnmillError`` for whatever redis-py raised.
    """

    def __init__(
        self,
        redis: str | Redis,
        timeout_s: float,
        cipher: Cipher | None,
        registration: Callable[[int], Call],
    ) -> None:
        self._cipher = cipher
        self._own = trips_to(redis, timeout_s) if isinstance(redis, str) else None
        self._given: Any = redis
        self._name = server_name(redis)
        self._registration = registration
        self._admission = Admission()

    @property
    def is_sealed(self) -> bool:
        """Whether there is a cipher: Redis cannot compare what it is sent."""
        return self._cipher is not None

    @property
    def look_s(self) -> float:
        """Seconds of one blocking look."""
        if self._own is not None:
            return look_s(self._own.attempt_s)
        return look_s(self._given.get_connection_kwargs().get("socket_timeout"))

    async def run(self, call: Call) -> Any:
        """The script's reply, sending its source where the server does not have it."""
        reply = await self._reply(("EVALSHA", call.script.sha, *call.words))
        if isinstance(reply, NoScriptError):
            reply = await self._reply(("EVAL", call.script.source, *call.words))
        return self._good(reply)

    async def plain(self, command: Command) -> Any:
        """The reply to one command."""
        return self._good(await self._reply(command))

    async def register(self, every_s: float = 0.0) -> None:
        """List the namespace, unless that was done less than ``every_s`` ago.

        Before anything is written: what is not listed, no sweep repairs.
        """
        if self._admission.is_due(every_s):
            told_of = self._registration(self._admission.untold())
            self._admission.told(await self.run(told_of))

    async def admit(self, sessions: Iterable[Command], pushes: int = 0) -> None:
        """Refuse what quotas leave no room for; commands ask whether the sessions are there."""
        if not self._admission.takes_new_sessions and not all(await self.pipeline(list(sessions))):
            self._admission.refuse_session()
        if pushes:
            self._admission.admit(pushes)

    async def pipeline(
        self, commands: Sequence[Command], *, raise_on_error: bool = True
    ) -> list[Any]:
        """The replies to commands sent together, each error raised or in its reply's place."""
        replies = await self._trip(commands) if commands else []
        if raise_on_error:
            return [self._good(each) for each in replies]
        return [self._typed(each) if isinstance(each, RedisError) else each for each in replies]

    async def scripts(
        self, calls: Sequence[Call], *, before: Sequence[Command], after: Sequence[Command]
    ) -> list[Any]:
        """The replies to calls of one script between commands, sent together; errors among them.

        Several calls take the script's source along, as one that is sent again would be late.
        """
        commands = evals(calls, with_source=len(calls) > 1)
        replies = await self._trip([*before, *commands, *after])
        if isinstance(replies[len(before)], NoScriptError):
            commands = evals(calls, with_source=True)
            replies = await self._trip([*before, *commands, *after])
        return [self._typed(each) if isinstance(each, RedisError) else each for each in replies]

    async def whole(
        self, commands: Sequence[Command], is_torn: Callable[[Sequence[Any]], bool]
    ) -> list[Any]:
        """The replies to commands sent together, again until no commit came between them."""
        replies = await self.pipeline(commands)
        while is_torn(replies):
            replies = await self.pipeline(commands)
        return replies

    async def _reply(self, command: Command) -> Any:
        [reply] = await self._trip([command])
        return reply

    async def _trip(self, commands: Sequence[Command]) -> list[Any]:
        """The replies as Redis sent them; its errors are in their places."""
        replies = await self._sealed(commands)
        if any(map(is_full, replies)):
            [info] = await self._sent([("INFO", "memory")])
            told = store_full(self._name, info)
            return [told if is_full(each) else each for each in replies]
        return replies

    async def _sealed(self, commands: Sequence[Command]) -> list[Any]:
        """The replies, opened, to the commands, sealed, if there is a cipher."""
        cipher = self._cipher
        if cipher is None:
            return await self._sent(commands)
        replies = await self._sent([sealed(cipher, command) for command in commands])
        places = map(place_of, commands)
        return [opened(cipher, *each) for each in zip(replies, places, strict=True)]

    async def _sent(self, commands: Sequence[Command]) -> list[Any]:
        try:
            if self._own is not None:
                return await self._own.trip(commands)
            async with self._given.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                replies: list[Any] = await pipe.execute(raise_on_error=False)
                return replies
        except RedisError as error:
            raise self._typed(error) from error

    async def close(self) -> None:
        """Tell of the pushes that count, and close the connections made here."""
        if self._admission.owes:
            with suppress(TurnmillError):
                await self.register()
        if self._own is not None:
            await self._own.close()

    def _good(self, reply: Any) -> Any:
        """The reply, if it is no error."""
        if isinstance(reply, StoreFull):
            raise reply
        if isinstance(reply, RedisError):
            raise self._typed(reply) from reply
        return reply

    def _typed(self, error: RedisError) -> TurnmillError:
        return translate(error, self._name)
