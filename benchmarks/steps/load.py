"""The load, and the agents that put it on a memory. Standard library only, as for ``turns``."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self

from benchmarks.steps.turns import Turn, turns

__all__ = ["Load", "Memory", "Outcome", "run"]

WARM_SESSIONS = 8
WARM_WINDOW = 4096


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the agents do, the same for all that is compared.

    Attributes:
        agents: sessions, each with an asyncio task.
        turns: of each session.
        think_s: between two steps, half of it up or down by chance.
        window: most tokens of a context.
        model: whether a model summarizes; else what needs none, where there is such a thing.
        burst: turns pushed in one step.
        writers: tasks that push to one session at the same time.
        redis_url, model_url: where both are.
        archive: the workers' SQLite file.
    """

    agents: int = 32
    turns: int = 200
    think_s: float = 0.2
    window: int = 8192
    model: bool = True
    burst: int = 1
    writers: int = 1
    redis_url: str = ""
    model_url: str = ""
    archive: str = ""

    def as_json(self) -> str:
        """In one line, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What ``as_json`` wrote."""
        return cls(**json.loads(text))


@dataclass(kw_only=True)
class Outcome:
    """What the agents saw.

    Attributes:
        blocked_ms: of each step, in no order.
        wall_s: from the first step to the last.
        reads: contexts read.
        projected: those that a read had to cut by itself.
        failed: steps that ended in an error; the agent went on with its next one.
        errors: the last of these errors.
        notes: whatever else there is to say about them.
    """

    blocked_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    reads: int = 0
    projected: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


class Memory(Protocol):
    """What is compared: it stores an agent's turns and says what goes to its model."""

    async def open(self, session: str, window: int) -> None:
        """Begin a session whose contexts have at most so many tokens."""

    def prepare(self, turn: Turn) -> Any:
        """The turn in the form that ``step`` takes; its time is not counted."""

    async def step(self, session: str, prepared: Sequence[Any]) -> bool:
        """Store the turns and get the next context; whether it was projected."""

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        """Let go of everything; what there is to say about the contexts read."""


async def warm_up(memory: Memory, rounds: int) -> None:
    """Have everything imported, connected and compacted once before anything is measured."""
    async with asyncio.TaskGroup() as group:
        for at in range(WARM_SESSIONS):
            group.create_task(_warm(memory, f"warm-{at}", turns(9000 + at, rounds)))


async def _warm(memory: Memory, name: str, work: Sequence[Turn]) -> None:
    await memory.open(name, WARM_WINDOW)
    for turn in work:
        await memory.step(name, [memory.prepare(turn)])
        await asyncio.sleep(0.02)


async def run(memory: Memory, load: Load, go: asyncio.Future[None]) -> Outcome:
    """All agents' steps, begun when ``go`` says so."""
    names = [f"agent-{at}" for at in range(load.agents)]
    work = [[memory.prepare(turn) for turn in turns(at, load.turns)] for at in range(load.agents)]
    for name in names:
        await memory.open(name, load.window)
    await go
    outcome = Outcome()
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for at, name in enumerate(names):
            for writer in range(load.writers):
                mine = work[at][writer :: load.writers]
                chance = random.Random(at * 100 + writer)
                group.create_task(_agent(memory, name, mine, load, chance, outcome))
    outcome.wall_s = time.perf_counter() - begun
    outcome.reads = len(outcome.blocked_ms) - outcome.failed
    outcome.notes["sessions"] = names
    return outcome


async def _agent(
    memory: Memory,
    name: str,
    prepared: Sequence[Any],
    load: Load,
    chance: random.Random,
    outcome: Outcome,
) -> None:
    """Think, step, think, step; agents do not begin all at the same moment."""
    await asyncio.sleep(chance.random() * load.think_s)
    for at in range(0, len(prepared), load.burst):
        begun = time.perf_counter()
        try:
            outcome.projected += await memory.step(name, prepared[at : at + load.burst])
        except Exception as error:  # noqa: BLE001 - any memory's; the run tells of it
            outcome.failed += 1
            outcome.errors = [*outcome.errors[-4:], repr(error)]
        outcome.blocked_ms.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(load.think_s * (0.5 + chance.random()))
