"""A whole replay, from agents to scorecard: what ``replay`` and ``demo`` have in common."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from turnmill import AsyncContextClient, Policy
from turnmill_cli.output import CommandFailed, stderr
from turnmill_cli.replay import settle as aftermath
from turnmill_cli.replay.agents import Agent, Replay, Run
from turnmill_cli.replay.promises import TokenCache
from turnmill_cli.replay.scorecard import Scorecard, score

__all__ = ["Performance", "perform", "progress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """How agents are to be run.

    Attributes:
        redis_url, broker_url: the pipeline; the broker is the same Redis when ``""``.
        namespace: whose sessions these become; a fresh one when None.
        concurrency: agents at a time.
        pace_s: seconds between an agent's steps.
        settle_s: how long to wait for the workers after the last step.
        keep: leave the sessions where they are.
        served: there are workers.
    """

    redis_url: str
    broker_url: str = ""
    namespace: str | None = None
    policy: Policy
    concurrency: int
    pace_s: float = 0.0
    settle_s: float = 30.0
    keep: bool = False
    served: bool = True


def perform(
    how: Performance, agents: Sequence[Agent], *, on_steps: Callable[[int], object]
) -> tuple[Scorecard, list[Run]]:
    """Run the agents, wait for the workers, check everything, forget the sessions.

    Raises:
        CommandFailed: a session of that name exists already; nothing was pushed.
        TurnmillError: what the pipeline raised.
    """
    basis, count = _exact_counter(how.policy)
    namespace = how.namespace or f"replay-{uuid.uuid4().hex[:8]}"
    names = [agent.name for agent in agents]
    begun = time.perf_counter()
    with aftermath.connect(
        how.redis_url, namespace, broker_url=how.broker_url, served=how.served
    ) as store:
        _refuse_existing(store, names)
        gc.freeze()  # what was loaded is no garbage, and a real agent would not carry all of it
        try:
            runs, stepping_s = asyncio.run(_step_through(how, namespace, agents, count, on_steps))
            live = [run for run in runs if not run.refused]
            unsettled = aftermath.settle(
                store, [run.agent.name for run in live], within_s=how.settle_s
            )
            commits: Counter[str] = Counter()
            for run in live:
                commits += aftermath.inspect(store, run, how.policy, count)
        finally:
            gc.unfreeze()
            if not how.keep:
                store.forget(names)
    card = score(
        runs,
        commits,
        count,
        stepping_s=stepping_s,
        seconds=time.perf_counter() - begun,
        unsettled=unsettled,
        basis=basis,
    )
    return card, runs


def _exact_counter(policy: Policy) -> tuple[str, TokenCache]:
    """What counts, and a cache before it."""
    # A producer does without the worker; a replay measures it.
    from turnmill_worker.tokens import count_message, counter_for  # noqa: PLC0415

    counter = counter_for(policy.encoding, policy.image_formula)
    return counter.basis, TokenCache(partial(count_message, counter))


def _refuse_existing(store: aftermath.Aftermath, names: Sequence[str]) -> None:
    taken = set(names) & set(store.client.sessions())
    if taken:
        raise CommandFailed(
            f"namespace {store.namespace!r} already has {len(taken)} of these sessions, such as "
            f"{min(taken)!r}: forget them, or use another --namespace"
        )


async def _step_through(
    how: Performance,
    namespace: str,
    agents: Sequence[Agent],
    count: TokenCache,
    on_steps: Callable[[int], object],
) -> tuple[list[Run], float]:
    async with AsyncContextClient(
        how.redis_url, namespace=namespace, broker=how.broker_url or None
    ) as client:
        replay = Replay(
            client,
            how.policy,
            count,
            concurrency=how.concurrency,
            pace_s=how.pace_s,
            on_steps=on_steps,
        )
        runs = await replay.run(agents)
        return runs, replay.stepping_s


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar on stderr when that is a terminal; call what you get with the steps taken."""
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn  # noqa: PLC0415

    with Progress(
        *Progress.get_default_columns()[:3],
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr(),
        disable=not sys.stderr.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=total)
        yield partial(bar.advance, task)
