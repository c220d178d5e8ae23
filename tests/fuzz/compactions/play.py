"""Plays agents against real stages over a real Redis, and looks at every context they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import redis

from tests.fuzz.compactions.agents import AGENTS
from tests.fuzz.compactions.checks import Sealed, invalid, over
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.contract.errors import NoCheckpoint, Transient
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

__all__ = ["Player", "Tally", "any_policy"]

NAMESPACE: Final = "fuzz"
TURNS: Final = 120
"""Of one session: enough for a dozen compactions of what was compacted before."""

LADDERS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"strategies": ("elide", "rolling", "window")},
    {"strategies": ("rolling",)},
    {"strategies": ("window",)},
    {"strategies": ("elide", "window"), "max_interactions": 2},
    {"strategies": ("images", "elide", "rolling", "window"), "max_history_images": 1},
    {"strategies": ("images", "rolling"), "max_history_images": 0, "keep_first_image": False},
    {"strategies": ("iterations", "window"), "keep_recent_iterations": 2, "soft_ratio": 1.0},
    {"strategies": ("managed", "window"), "recent_runs": 3, "passthrough_runs": 1},
)


def any_policy(random: Random, dialect: str) -> Policy:
    """Any strategies over a context so small that a few turns fill it."""
    return Policy(
        **{
            "dialect": random.choice([dialect, ""]),
            "max_tokens": random.choice([600, 1024, 2048]),
            "recent_turns_to_keep": random.randint(0, 4),
            "min_progress_ratio": random.choice([0.0, 0.1]),
            "quality_threshold": random.choice([0.0, 0.0, 0.6]),
            "checkpoint_interval": random.choice([0, 2]),
            "cache_marks": random.choice([True, False]),
            "ledger_ratio": random.choice([0.1, 0.0]),
            **random.choice(LADDERS),
        }
    )


@dataclass
class Tally:
    """What was looked at, and what was wrong with it."""

    turns: int = 0
    contexts: int = 0
    projected: int = 0
    thoughts: int = 0
    compactions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class Player:
    """Agents and a worker of one Redis, which is emptied before each session.

    ``tally`` goes on over all sessions; a fault names the dialect, the seed and the turn.
    """

    def __init__(self, url: str) -> None:
        self.tally = Tally()
        self._redis = redis.Redis.from_url(url)
        self._client = ContextClient(url, namespace=NAMESPACE, broker=SilentWaker())
        self._worker = Worker(self._redis, NAMESPACE)
        self._rollback = Rollback(RedisStates(self._redis), None, counter_for)

    def close(self) -> None:
        """Leave the server."""
        self._client.close()
        self._redis.close()

    def fuzz(self, dialect: str, seed: int, *, turns: int = TURNS) -> None:
        """One session of an agent, with workers that come now and then, and ways back."""
        random = Random(seed)
        policy = any_policy(random, dialect)
        self._begin(policy)
        sealed, agent = Sealed(), AGENTS[dialect](seed)
        for at in range(turns):
            turn = next(agent)
            sealed.add(turn)
            self._push({"messages": turn, "pinned": random.random() < 0.01})
            for what in self._happens(random):
                self._look(f"{dialect}, seed {seed}, turn {at}, {what}", policy, sealed)

    def told(self, turns: Iterable[Sequence[Any]], policy: Policy, system: str, name: str) -> None:
        """One recorded session; every context is read in every dialect."""
        self._begin(policy, system)
        for at, turn in enumerate(turns):
            self._push(turn)
            if at % 6 == 5:
                self._work()
            self._look(f"{name}, turn {at}", policy, None)

    def _begin(self, policy: Policy, system: str = "You are terse.") -> None:
        self._redis.flushdb()
        self._client.open("s", policy, system_prompt=system)

    def _push(self, turn: Any) -> None:
        self._client.push("s", turn)
        self.tally.turns += 1

    def _happens(self, random: Random) -> Iterable[str]:
        """What a moment brings; an agent reads after each."""
        chance = random.random()
        if chance < 0.3:
            yield self._work()
        elif chance < 0.32:
            self._client.checkpoint("s", "a mark")
        elif chance < 0.34:
            yield self._goes_back(random)
        elif chance < 0.35:
            yield self._forced()
        elif chance < 0.6:
            yield "pushed"

    def _work(self) -> str:
        ref = self._worker.ref("s")
        self._worker.pipeline.estimate(ref)
        outcome = self._worker.pipeline.summarize(ref)
        if outcome.outcome == "committed":
            self.tally.compactions[outcome.strategy or "shortened"] += 1
        return outcome.outcome

    def _goes_back(self, random: Random) -> str:
        saved = [each.id for each in self._client.checkpoints("s")]
        try:
            to = random.choice([None, *saved])
            self._rollback.rollback(self._worker.ref("s"), to)
        except NoCheckpoint:
            return "nothing to go back to"
        return "rolled back"

    def _forced(self) -> str:
        try:
            done = self._worker.pipeline.force(self._worker.ref("s"), template="")
        except Transient:
            return "refused"
        self.tally.compactions["forced"] += bool(done.turns_summarized)
        return "forced"

    def _look(self, where: str, policy: Policy, sealed: Sealed | None) -> None:
        context = self._client.read("s")
        found = [*invalid(context), *over(context, policy.hard_limit)]
        if sealed is not None:
            found += sealed.broken(context)
            self.tally.thoughts += sealed.shown
        self.tally.contexts += 1
        self.tally.projected += context.projection is not None
        for what in found:
            self.tally.faults[f"{what} ({where})"] += 1
