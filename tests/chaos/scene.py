"""What a scenario needs: a session, somebody who pushes and reads, and steps that can be held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from tests.chaos.agents import Recorder, message_of, turn_id
from tests.chaos.faults import send_hints
from tests.chaos.proxy import Action, Trap
from tests.chaos.world import World
from tests.processes import wait_until
from turnmill import Context, ContextClient, ContextInfo, Turn
from turnmill.contract import jobs
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId

FILLS = 45
"""Turns that take a session over its soft limit."""


class Scene:
    """A session in a world; what is pushed and read here is checked in the end."""

    def __init__(self, world: World, session: str, *, style: str = "chat") -> None:
        world.revive()
        self.world = world
        self.session = session
        self.style = style
        self.turns: list[str] = []
        self.client = ContextClient(
            world.front.url, namespace=world.namespace, broker=world.broker.url, timeout_s=10
        )
        file = world.folder / "history" / f"{session}.jsonl"
        self._recorder = Recorder(file, f"scene-{session}")
        world.open({session: style})

    def close(self) -> None:
        """Let go of the connections."""
        self.client.close()

    # the agent

    def push(self, count: int = 1) -> list[int]:
        """Push so many turns; their seqs."""
        first = len(self.turns)
        new = [turn_id("x", self.session, first + at, self.style) for at in range(count)]
        self.turns += new
        return self.push_again(*new)

    def push_again(self, *turns: str) -> list[int]:
        """Push these turns under their ids."""
        number = self._recorder.begin("push", self.session, turns)
        made = [Turn(messages=[message_of(one)], turn_id=one) for one in turns]
        pushed = self.client.push_many((self.session, one) for one in made)
        seqs = [int(each.seq) for each in pushed]
        self._recorder.end(number, seqs=seqs)
        return seqs

    def read(self) -> Context:
        """Read the context."""
        number = self._recorder.begin("read", self.session)
        context = self.client.read(self.session)
        self._recorder.end_read(number, context)
        return context

    @property
    def info(self) -> ContextInfo:
        """The session in numbers."""
        return self.client.info(self.session)

    @property
    def keys(self) -> SessionKeys:
        """Its keys in Redis."""
        return session_keys(Namespace(self.world.namespace), SessionId(self.session))

    @contextmanager
    def redis(self) -> Iterator[Any]:
        """A plain connection to where it is stored."""
        with redis.Redis.from_url(self.world.store.url) as plain:
            yield plain

    # the workers

    @contextmanager
    def held(self, command: str, *, nth: int = 1) -> Iterator[Trap]:
        """A step at which a worker stands still until the block ends."""
        trap = self.world.back.set(Trap(command, "freeze", nth))
        try:
            yield trap
        finally:
            trap.released.set()

    def broken(self, command: str, action: Action, *, nth: int = 1) -> Trap:
        """A step of a worker that is broken once."""
        return self.world.back.set(Trap(command, action, nth))

    def fill(self) -> None:
        """Push until a compaction is due."""
        self.push(FILLS)

    def reach(self, trap: Trap, *, within_s: float = 30.0) -> None:
        """Wait until a worker is at the step."""
        wait_until(trap.sprung.is_set, within_s=within_s, what=f"{trap.command} reached")

    def hint(self, *tasks: str) -> None:
        """Hint these tasks, or all."""
        named = tasks or (jobs.ESTIMATE, jobs.COMPACT, jobs.SUMMARIZE, jobs.ARCHIVE)
        send_hints(self.world, [(task, self.session) for task in named])

    def committed(self, version: int = 1, *, within_s: float = 40.0) -> None:
        """Wait for a version."""
        wait_until(
            lambda: self.info.version >= version, within_s=within_s, what=f"version {version}"
        )

    def archived(self, *, within_s: float = 30.0) -> None:
        """Wait until all covered turns are in the archive."""

        def done() -> bool:
            with self.redis() as plain:
                return bool(plain.zscore(self.keys.unarchived, self.session) is None)

        wait_until(done, within_s=within_s, what="archived")

    # the end

    def assert_kept(self) -> None:
        """Every promise holds, and everything settled."""
        self.read()
        report = self.world.finish(self.session)
        assert not report.violations, str(report)
