"""Many agents push and read at once, in rounds, and every context they get is checked.

Agents move in rounds. A round first asks every agent for its next message (an agent may run tools
here), then takes all steps concurrently - each a push and a read, timed - and then checks what was
read. Only the middle part is on the clock and nothing else runs in it, so no agent's latency
contains another's tool or check; it does contain the other agents' pushes and reads, as in any
event loop they share. Workers go on through all three parts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnmill import AsyncContextClient, Context, Policy, SystemPromptTooLarge
from turnmill.contract.context import JsonMessage
from turnmill_cli.replay.promises import CheckedRead, Fault, TokenCache, Transcript, check_context

__all__ = ["Agent", "AgentSession", "Rounds"]


class Agent(Protocol):
    """Whoever decides what is pushed next."""

    @property
    def name(self) -> str:
        """Its session's name."""

    @property
    def system_prompt(self) -> str:
        """Empty for none."""

    def next(self, seen: Context | None) -> JsonMessage | None:
        """The next message, given the context read after the last one; None when it is done."""


@dataclass(slots=True)
class AgentSession:
    """One agent's session so far.

    Attributes:
        refused: its system prompt left no room under the hard limit, and nothing was pushed.
        latencies_ms: of its steps.
        projected: how many of its reads were cut to the hard limit.
        recut: how many of those did not begin with the read before, though no commit came between.
        last: its newest read, looked at.
        compacted: the last two reads with a commit between them.
        archived: how many of its turns were in the archive alone in the end.
    """

    agent: Agent
    transcript: Transcript
    refused: bool = False
    latencies_ms: list[float] = field(default_factory=list)
    projected: int = 0
    recut: int = 0
    faults: list[Fault] = field(default_factory=list)
    last: CheckedRead | None = None
    compacted: tuple[CheckedRead, CheckedRead] | None = None
    archived: int = 0

    def take(self, context: Context, *, hard_limit: int, count: TokenCache) -> None:
        """Check a read, and remember it as the last."""
        before = self.last
        now = check_context(
            context, self.transcript, hard_limit=hard_limit, count=count, previous=before
        )
        if before is not None and before.context.version < context.version:
            self.compacted = (before, now)
        self.projected += context.projection is not None
        self.recut += now.recut
        self.faults += now.faults
        self.last = now


class Rounds:
    """Runs agents, at most ``concurrency`` at a time, through one shared client.

    Args:
        pace_s: seconds between an agent's steps; the agents' steps are spread evenly over it.
        on_steps: told how many steps each round took.
    """

    def __init__(
        self,
        client: AsyncContextClient,
        policy: Policy,
        count: TokenCache,
        *,
        concurrency: int,
        pace_s: float = 0.0,
        on_steps: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._policy = policy
        self._count = count
        self._concurrency = concurrency
        self._pace_s = pace_s
        self._on_steps = on_steps
        self.stepping_s = 0.0
        """Seconds in which steps were being taken."""

    async def run(self, agents: Iterable[Agent]) -> list[AgentSession]:
        """Run every agent to its end; returns their sessions in order."""
        waiting = iter(agents)
        sessions: list[AgentSession] = []
        active: list[AgentSession] = []
        while True:
            opened = await self._open(waiting, self._concurrency - len(active))
            sessions += opened
            active += [session for session in opened if not session.refused]
            moves = [(session, _next_move(session)) for session in active]
            taken = [(session, message) for session, message in moves if message is not None]
            active = [session for session, _ in taken]
            if taken:
                await self._round(taken)
            elif not opened:
                return sessions

    async def _open(self, waiting: Iterator[Agent], places: int) -> list[AgentSession]:
        opened: list[AgentSession] = []
        while places > 0 and (agent := next(waiting, None)) is not None:
            session = AgentSession(agent, Transcript(agent.system_prompt))
            try:
                await self._client.open(agent.name, self._policy, agent.system_prompt or None)
                places -= 1
            except SystemPromptTooLarge:
                session.refused = True
            opened.append(session)
        return opened

    async def _round(self, moves: Sequence[tuple[AgentSession, JsonMessage]]) -> None:
        apart_s = self._pace_s / len(moves)
        begun = time.perf_counter()
        contexts = await asyncio.gather(
            *(self._step(each, message, at * apart_s) for at, (each, message) in enumerate(moves)),
            asyncio.sleep(self._pace_s),
        )
        self.stepping_s += time.perf_counter() - begun
        for (session, _), context in zip(moves, contexts[:-1], strict=True):
            assert context is not None  # noqa: S101 - the last one is the pause
            session.take(context, hard_limit=self._policy.hard_limit, count=self._count)
        self._on_steps(len(moves))

    async def _step(self, session: AgentSession, message: JsonMessage, after_s: float) -> Context:
        if after_s:
            await asyncio.sleep(after_s)
        name = session.agent.name
        begun = time.perf_counter()
        pushed = await self._client.push(name, message)
        context = await self._client.read(name)
        session.latencies_ms.append((time.perf_counter() - begun) * 1000)
        session.transcript.add(pushed.seq, message)
        return context


def _next_move(session: AgentSession) -> JsonMessage | None:
    return session.agent.next(session.last.context if session.last else None)
