"""A whole replay, from agents to scorecard: what ``replay`` and ``demo`` have in common."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from turnmill import AsyncContextClient, Policy
from turnmill_cli.output import CommandFailed
from turnmill_cli.replay.concurrent_agents import Agent, AgentSession, Rounds
from turnmill_cli.replay.final_checks import Store, check_session, connect, wait_for_workers
from turnmill_cli.replay.promises import TokenCache
from turnmill_cli.replay.scorecard import Scorecard, score
from turnmill_worker.tokens import count_message, counter_for

__all__ = ["ReplaySettings", "run_agents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How agents are to be run.

    Attributes:
        redis_url, broker_url: of the pipeline; the broker is the same Redis when ``""``.
        namespace: whose sessions these become.
        concurrency: agents at a time.
        pace_s: seconds between an agent's steps.
        settle_s: how long to wait for the workers after the last step.
        keep: leave the sessions where they are.
        has_workers: the pipeline has workers.
    """

    redis_url: str
    broker_url: str = ""
    namespace: str
    policy: Policy
    concurrency: int
    pace_s: float = 0.0
    settle_s: float = 30.0
    keep: bool = False
    has_workers: bool = True


def run_agents(
    settings: ReplaySettings, agents: Sequence[Agent], *, on_steps: Callable[[int], object]
) -> tuple[Scorecard, list[AgentSession]]:
    """Run the agents, wait for the workers, check everything, forget the sessions.

    Raises:
        CommandFailed: a session of that name exists already; nothing was pushed.
        TurnmillError: what the pipeline raised.
    """
    counter = counter_for(settings.policy.encoding, settings.policy.image_formula)
    count = TokenCache(partial(count_message, counter))
    names = [agent.name for agent in agents]
    begun = time.perf_counter()
    with (
        connect(
            settings.redis_url,
            settings.namespace,
            broker_url=settings.broker_url,
            has_workers=settings.has_workers,
        ) as store,
        _forgotten_afterwards(store, names, keep=settings.keep),
    ):
        sessions, stepping_s = asyncio.run(_run(settings, agents, count, on_steps))
        live = [each for each in sessions if not each.refused]
        live_names = [each.agent.name for each in live]
        unsettled = wait_for_workers(store, live_names, within_s=settings.settle_s)
        commits: Counter[str] = Counter()
        for each in live:
            commits += check_session(store, each, settings.policy, count)
    card = score(
        sessions,
        commits,
        count,
        stepping_s=stepping_s,
        seconds=time.perf_counter() - begun,
        unsettled=unsettled,
        basis=counter.basis,
    )
    return card, sessions


@contextmanager
def _forgotten_afterwards(store: Store, names: Sequence[str], *, keep: bool) -> Iterator[None]:
    """Sessions that must not exist before the block, and do not after it unless they are kept."""
    taken = set(names) & set(store.client.sessions())
    if taken:
        raise CommandFailed(
            f"namespace {store.client.namespace!r} already has {len(taken)} of these sessions, "
            f"such as {min(taken)!r}: forget them, or use another --namespace"
        )
    try:
        yield
    finally:
        for name in () if keep else names:
            store.client.forget(name)


async def _run(
    settings: ReplaySettings,
    agents: Sequence[Agent],
    count: TokenCache,
    on_steps: Callable[[int], object],
) -> tuple[list[AgentSession], float]:
    """Every agent's session, and the seconds in which steps were being taken."""
    broker = settings.broker_url or None
    gc.freeze()  # what was loaded is no garbage, and a real agent would not carry all of it
    try:
        async with AsyncContextClient(
            settings.redis_url, namespace=settings.namespace, broker=broker
        ) as client:
            rounds = Rounds(
                client,
                settings.policy,
                count,
                concurrency=settings.concurrency,
                pace_s=settings.pace_s,
                on_steps=on_steps,
            )
            return await rounds.run(agents), rounds.stepping_s
    finally:
        gc.unfreeze()
