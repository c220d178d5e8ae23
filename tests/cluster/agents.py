"""Agents of both kinds that push and read under load, and what is checked of every read."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import redis

from tests.worker.harness import SMALL, JsonMessage, Stored, chat
from turnmill import AsyncContextClient, Context, ContextClient, Transient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

__all__ = ["Agent", "Load", "stored_of"]


@dataclass
class Agent:
    """One session: what it pushes, what was acknowledged when, and what its reads showed."""

    session: str
    turns: Sequence[JsonMessage]
    acknowledged: list[float] = field(default_factory=list)
    reads: int = 0
    errors: list[str] = field(default_factory=list)
    version: int = 0

    def turn_id(self, at: int) -> str:
        """The same however often it is pushed."""
        return f"{self.session}-{at}"

    def check(self, context: Context) -> None:
        """The read holds the summary's turns and then every later one: none missing, none twice."""
        self.reads += 1
        assert context.version >= self.version, "an agent's reads never go back"
        self.version = context.version
        texts = {turn["content"]: at for at, turn in enumerate(self.turns, 1)}
        shown = [texts[m["content"]] for m in context.messages if m["content"] in texts]
        pushed = len(self.acknowledged)
        if context.projection is None:
            assert shown == list(range(context.watermark + 1, pushed + 1)), self.session
        else:
            assert shown[-1] == pushed, self.session


class Load:
    """Some agents in threads and some in an event loop, all at once, until they are done.

    Each thinks for ``think_s`` after every step.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        *,
        broker: str | None,
        turns: int,
        agents: int = 6,
        think_s: float = 0.0,
    ) -> None:
        self.namespace = namespace
        self._think_s = think_s
        self._url = url
        self._options: dict[str, Any] = {"namespace": namespace, "broker": broker}
        names = [f"{kind}-{at}" for at in range(agents) for kind in ("sync", "async")]
        self.agents = [Agent(name, chat(turns, topic=f"parcel of {name}")) for name in names]
        self.failures: list[BaseException] = []
        self.is_checking = True
        self._threads = [
            threading.Thread(target=self._guarded, args=(self._run_in_threads,)),
            threading.Thread(target=self._guarded, args=(self._run_in_loop,)),
        ]

    def start(self) -> None:
        """Let them begin."""
        for thread in self._threads:
            thread.start()

    @property
    def is_running(self) -> bool:
        """Whether one of them still has turns to push."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for them; raises what a check found."""
        for thread in self._threads:
            thread.join(timeout=180)
        assert not self.is_running
        if self.failures:
            raise self.failures[0]

    def _guarded(self, run: Any) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.failures.append(error)

    def _run_in_threads(self) -> None:
        with ContextClient(self._url, **self._options) as client:
            mine = [a for a in self.agents if a.session.startswith("sync")]
            threads = [
                threading.Thread(target=self._guarded, args=(lambda a=a: self._alone(client, a),))
                for a in mine
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _alone(self, client: ContextClient, agent: Agent) -> None:
        asyncio.run(self._run(client, agent))

    def _run_in_loop(self) -> None:
        asyncio.run(self._all_in_loop())

    async def _all_in_loop(self) -> None:
        async with AsyncContextClient(self._url, **self._options) as client:
            mine = [a for a in self.agents if a.session.startswith("async")]
            await asyncio.gather(*(self._run(client, agent) for agent in mine))

    async def _run(self, client: ContextClient | AsyncContextClient, agent: Agent) -> None:
        await _done(client.open(agent.session, SMALL))
        for at, turn in enumerate(agent.turns):
            while len(agent.acknowledged) == at:
                try:
                    await _done(client.push(agent.session, turn, turn_id=agent.turn_id(at)))
                    agent.acknowledged.append(time.monotonic())
                except Transient as error:
                    agent.errors.append(repr(error))
            with suppress(Transient):
                self._check(agent, await _done(client.read(agent.session)))
            await asyncio.sleep(self._think_s)

    def _check(self, agent: Agent, context: Context) -> None:
        if self.is_checking:
            agent.check(context)


async def _done(answer: Any) -> Any:
    """What either kind of client answers."""
    return await answer if inspect.isawaitable(answer) else answer


def stored_of(client: redis.Redis, namespace: str, session: str) -> Stored:
    """What Redis holds of a session that is at rest."""
    keys = session_keys(Namespace(namespace), SessionId(session))
    return Stored(client, keys, at_rest=True)
