"""The synchronous client: push turns, read contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from turnmill.commands import Call, Command, Commands, PushCall, translate
from turnmill.contract.context import Context, ContextInfo, Pushed
from turnmill.contract.errors import TurnmillError
from turnmill.contract.names import SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.scripts import Script
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike
from turnmill.exact import exact_tokens
from turnmill.wake import CeleryWaker, HintCounts, SilentWaker, Waker

__all__ = ["ContextClient"]

ATTEMPTS = 4
MAX_CONNECTIONS = 64
CHUNK = 500
"""Turns per pipeline of ``push_many``: bounds the memory of one round trip."""


def connection_options(timeout_s: float) -> dict[str, Any]:
    """Socket limits so that ``ATTEMPTS`` tries and their pauses end within ``timeout_s``."""
    each = 0.8 * timeout_s / ATTEMPTS
    return {"socket_timeout": each, "socket_connect_timeout": each, "decode_responses": False}


def backoff(timeout_s: float) -> ExponentialBackoff:
    """Pauses between the tries: at most a fifth of ``timeout_s`` together."""
    return ExponentialBackoff(cap=timeout_s / 20, base=timeout_s / 100)


def run_script(client: Any, script: Script, words: Sequence[str | bytes | int]) -> Any:
    """The script's reply, sending its source where the server does not have it.

    Raises:
        TurnmillError: whatever redis-py raised, translated.
    """
    try:
        try:
            return client.execute_command("EVALSHA", script.sha, *words)
        except redis.exceptions.NoScriptError:
            return client.execute_command("EVAL", script.source, *words)
    except redis.RedisError as error:
        raise translate(error) from error


def waker_for(redis_url: object, broker: str | Waker | None) -> Waker:
    """The waker a client uses: the one given, one for the broker's URL, or for the same Redis."""
    if broker is None:
        return CeleryWaker(redis_url) if isinstance(redis_url, str) else SilentWaker()
    return CeleryWaker(broker) if isinstance(broker, str) else broker


class ContextClient:
    """Pushes turns and reads contexts; safe to share between threads.

    Args:
        redis: URL of the state store, or a redis-py client (Sentinel, Cluster) that does not
            decode responses.
        namespace: separates tenants; sessions of two namespaces never meet.
        broker: URL of the Celery broker the workers listen to, or a ``Waker``. By default the
            state store's URL; with a redis-py client, none: the sweep finds new turns in seconds.
        timeout_s: how long a call may take when Redis is slow or down.
        max_turn_bytes: largest turn accepted, in bytes of JSON.

    Every method raises ``StoreUnavailable`` within ``timeout_s`` while Redis is down, and works
    again when it is back. Pushes are retried safely: a turn has an id.
    """

    def __init__(
        self,
        redis: str | redis.Redis = "redis://localhost:6379/0",
        *,
        namespace: str = "default",
        broker: str | Waker | None = None,
        timeout_s: float = 5.0,
        max_turn_bytes: int = DEFAULT_MAX_TURN_BYTES,
    ) -> None:
        self._commands = Commands.of(namespace, max_turn_bytes)
        self._waker = waker_for(redis, broker)
        self._registered = False
        self._owned = isinstance(redis, str)
        self._redis: Any = _connect(redis, timeout_s) if isinstance(redis, str) else redis

    @property
    def namespace(self) -> str:
        """The namespace of all sessions here."""
        return self._commands.namespace

    @property
    def hints(self) -> HintCounts:
        """How many hints were published and dropped by this client."""
        return self._waker.counts

    def open(
        self,
        session: str,
        policy: Policy | None = None,
        system_prompt: str | None = None,
    ) -> None:
        """Create a session, or change its policy or system prompt. None leaves what is there.

        A session needs no opening to be pushed to: it then has the default policy.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room under the policy's hard limit.
        """
        call = self._commands.open(session, policy, system_prompt)
        self._register()
        reply = self._run(call)
        if self._commands.is_refused(reply) and system_prompt:
            # An upper bound puts it in doubt: count it, if a vocabulary is installed here.
            tokens = exact_tokens(system_prompt, policy)
            reply = self._run(self._commands.open_finally(call, tokens))
        if self._commands.opened(reply):
            self._waker.wake(self._commands.namespace, SessionId(session))

    def push(self, session: str, turn: TurnLike, *, turn_id: str | None = None) -> Pushed:
        """Append a turn: a ``Turn``, one message, or a list of messages. One round trip.

        Pushing the same ``turn_id`` again stores nothing and returns the same seq.

        Raises:
            InvalidTurn, TurnTooLarge, InvalidName: nothing was stored.
        """
        push = self._commands.push(session, turn, turn_id)
        if not self._registered:
            self._register()
        done = self._settle(push, self._run(push.call))
        if done.seq == 1:
            self._register_again()
        return done

    def push_many(self, turns: Iterable[tuple[str, TurnLike]]) -> list[Pushed]:
        """Append many (session, turn) pairs, pipelined, in the order given.

        All are checked before any is sent. When Redis fails midway some may be stored; give the
        turns ids and push again.
        """
        calls = self._commands.push_many(turns)
        self._register()
        done: list[Pushed] = []
        for start in range(0, len(calls), CHUNK):
            chunk = calls[start : start + CHUNK]
            replies = self._push_chunk(chunk)
            failed = [reply for reply in replies if isinstance(reply, redis.RedisError)]
            done += [
                self._settle(push, reply)
                for push, reply in zip(chunk, replies, strict=True)
                if not isinstance(reply, redis.RedisError)
            ]
            if failed:
                raise translate(failed[0])
        if any(pushed.seq == 1 for pushed in done):
            self._register_again()
        return done

    def read(self, session: str) -> Context:
        """The context as of now: one round trip, never waits for a worker, never over the limit.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        commands = self._commands.read(session)
        reply = self._pipeline(commands)
        while self._commands.is_torn(reply):
            reply = self._pipeline(commands)
        return self._commands.context(session, reply)

    def info(self, session: str) -> ContextInfo:
        """The session in numbers, without its content.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        return self._commands.context_info(session, self._run(self._commands.info(session)))

    def forget(self, session: str) -> bool:
        """Remove the session from Redis; returns whether there was one."""
        return bool(self._run(self._commands.forget(session)))

    def sessions(self) -> list[SessionId]:
        """All sessions of the namespace, the most recently pushed first."""
        commands: list[Command] = [
            ("ZRANGE", key, 0, -1, "WITHSCORES") for key in self._commands.index_keys()
        ]
        return self._commands.sessions(self._pipeline(commands))

    def close(self) -> None:
        """Publish waiting hints, briefly, and close the connections made here."""
        self._waker.close()
        if self._owned:
            self._redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Call) -> Any:
        return run_script(self._redis, call.script, call.words)

    def _push_chunk(self, pushes: Sequence[PushCall]) -> list[Any]:
        # The first goes with its source, so that a server that lost the script has it for the rest.
        script = pushes[0].call.script
        commands: list[Command] = [("EVAL", script.source, *pushes[0].call.words)]
        commands += [("EVALSHA", script.sha, *push.call.words) for push in pushes[1:]]
        return self._pipeline(commands, raise_on_error=False)

    def _pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                replies: list[Any] = pipe.execute(raise_on_error=raise_on_error)
                return replies
        except redis.RedisError as error:
            raise translate(error) from error

    def _settle(self, push: PushCall, reply: Sequence[int]) -> Pushed:
        """Hint if the workers want it."""
        done, hint = self._commands.pushed(push, reply)
        if hint:
            self._waker.wake(self._commands.namespace, done.session)
        return done

    def _register(self) -> None:
        """List the namespace, before anything is written: what is not listed, no sweep repairs."""
        try:
            self._redis.execute_command(*self._commands.registration())
        except redis.RedisError as error:
            raise translate(error) from error
        self._registered = True

    def _register_again(self) -> None:
        """A new session: perhaps on a server that lost everything. The turn is stored already."""
        with suppress(TurnmillError):
            self._register()


def _connect(url: str, timeout_s: float) -> redis.Redis:
    # Blocking: with more callers than connections, callers wait; a plain pool would raise.
    pool = redis.BlockingConnectionPool.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        timeout=timeout_s,
        retry=Retry(backoff(timeout_s), ATTEMPTS - 1),
        **connection_options(timeout_s),
    )
    client = redis.Redis.from_pool(pool)
    del client.response_callbacks["XRANGE"]  # type: ignore[no-untyped-call]  # a dict per entry, unused
    return client
