"""Agents as processes, so that they can be killed: `python -m tests.chaos.agents PLAN`.

Each pushes turns to its sessions and reads them back, by chance, and writes down every call. What
fails is tried again under the same turn id, as the client's promise allows.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tests.chaos.history import Recorder
from tests.chaos.turns import message_of, turn_id
from turnmill import AsyncContextClient, ContextClient, SilentWaker, Turn, TurnmillError

__all__ = ["AgentPlan", "spawn"]

_TRIES = 200


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent does.

    Attributes:
        name: of this life of the agent; turn ids begin with it.
        url: of the state store; ``broker`` of the broker, or ``""`` to send no hints.
        sessions: names with the style of turns each gets.
        batch: most turns of one call; ``burst`` of some, in sessions without summaries of a model.
        read_share: how many of its calls are reads.
        pause_s: longest pause between two calls of a session.
        turns: after how many turns in all it ends; 0 is never.
        clock_ahead_s: how wrong its clock is.
    """

    name: str
    url: str
    broker: str
    namespace: str
    sessions: dict[str, str]
    folder: str
    kind: Literal["sync", "async"] = "sync"
    seed: int = 0
    batch: int = 4
    burst: int = 0
    read_share: float = 0.3
    pause_s: float = 0.2
    timeout_s: float = 5.0
    turns: int = 0
    clock_ahead_s: float = 0.0


def spawn(plan: AgentPlan) -> subprocess.Popen[bytes]:
    """Start the agent."""
    log = (Path(plan.folder) / f"{plan.name}.log").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.agents", json.dumps(asdict(plan))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Agent:
    """What sync and async agents share: which call comes next, and what is written of it."""

    def __init__(self, plan: AgentPlan, client: Any) -> None:
        self.plan = plan
        self.stopped = False
        self._client = client
        self._recorder = Recorder(Path(plan.folder) / f"{plan.name}.jsonl", plan.name)
        self._random = random.Random(f"{plan.seed} {plan.name}")
        self._numbers: Counter[str] = Counter()
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopped = True

    @property
    def done(self) -> bool:
        """Whether to end."""
        return self.stopped or 0 < self.plan.turns <= self._numbers.total()

    async def step(self, session: str) -> None:
        """One call, tried until it is acknowledged."""
        if self._numbers[session] and self._random.random() < self.plan.read_share:
            await self._try("read", session, ())
            return
        style = self.plan.sessions[session]
        count = self._count(style)
        first = self._numbers[session]
        self._numbers[session] += count
        turns = [turn_id(self.plan.name, session, first + at, style) for at in range(count)]
        for _ in range(_TRIES):
            if self.stopped or await self._try("push", session, turns):
                return
            await self._sleep(0.02)

    def _count(self, style: str) -> int:
        """How many turns to push in one call: mostly one, at times many at once."""
        chance = self._random.random()
        if style in ("small", "tools") and chance < 0.4 and self.plan.burst:
            return self._random.randint(self.plan.burst // 5, self.plan.burst)
        if style == "small":
            return self.plan.batch
        return 1 if chance < 0.6 else self._random.randint(1, self.plan.batch)

    async def _sleep(self, seconds: float) -> None:
        if self.plan.kind == "sync":
            time.sleep(seconds)  # noqa: ASYNC251 - nobody else runs in this thread
        else:
            await asyncio.sleep(seconds)

    async def _try(
        self, kind: Literal["push", "read"], session: str, turns: list[str] | tuple[()]
    ) -> bool:
        number = self._recorder.begin(kind, session, turns)
        try:
            result = self._call(kind, session, turns)
            result = await result if inspect.isawaitable(result) else result
        except TurnmillError as error:
            self._recorder.end(number, error=type(error).__name__)
            return False
        if kind == "read":
            self._recorder.end_read(number, result)
        else:
            pushed = result if isinstance(result, list) else [result]
            self._recorder.end(number, seqs=[each.seq for each in pushed])
        return True

    def _call(self, kind: str, session: str, turns: list[str] | tuple[()]) -> Any:
        if kind == "read":
            return self._client.read(session)
        if len(turns) == 1:
            return self._client.push(session, message_of(turns[0]), turn_id=turns[0])
        made = [Turn(messages=[message_of(one)], turn_id=one) for one in turns]
        return self._client.push_many((session, one) for one in made)

    def pause_s(self) -> float:
        """Until the next call."""
        return self._random.random() * self.plan.pause_s


def run_sync(plan: AgentPlan) -> None:
    """All sessions in turn."""
    with ContextClient(plan.url, **_options(plan)) as client:
        agent = Agent(plan, client)
        while not agent.done:
            for session in plan.sessions:
                with suppress(StopIteration):
                    agent.step(session).send(None)  # its client is a sync one: it never suspends
                time.sleep(agent.pause_s())


async def run_async(plan: AgentPlan) -> None:
    """All sessions at once."""

    async def live(session: str) -> None:
        while not agent.done:
            await agent.step(session)
            await asyncio.sleep(agent.pause_s())

    async with AsyncContextClient(plan.url, **_options(plan)) as client:
        agent = Agent(plan, client)
        await asyncio.gather(*map(live, plan.sessions))


def _options(plan: AgentPlan) -> dict[str, Any]:
    broker = plan.broker or SilentWaker()
    return {"namespace": plan.namespace, "broker": broker, "timeout_s": plan.timeout_s}


def _wrong_clock(ahead_s: float) -> None:
    right = time.time
    time.time = lambda: right() + ahead_s


if __name__ == "__main__":
    what = AgentPlan(**json.loads(sys.argv[1]))
    _wrong_clock(what.clock_ahead_s)
    run_sync(what) if what.kind == "sync" else asyncio.run(run_async(what))
