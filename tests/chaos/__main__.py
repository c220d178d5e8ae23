"""A run by chance: agents work, two gremlins break things, and afterwards everything is checked."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker import Report
from tests.chaos.faults import Gremlin, going_back, of_processes, of_servers
from tests.chaos.world import SETTLES_WITHIN_S, World

BURST_SESSIONS = 16
"""Of the agent that pushes most: its sessions get nothing but small turns."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run consists of; the same seed makes the same choices.

    Attributes:
        burst: most turns that agents push in one call, now and then; 0 for few turns at a time.
        settle_s: what waits longer than this in the end is left behind.
    """

    seconds: float
    seed: int = 0
    fsync: str = "everysec"
    workers: int = 2
    burst: int = 50
    only: Sequence[str] = ()
    archive_url: str = ""
    settle_s: float = SETTLES_WITHIN_S


def all_gremlins(plan: RunPlan) -> list[Gremlin]:
    """Those of the plan, by name, or all."""
    sqlite = not plan.archive_url
    known = [*of_processes(), *of_servers(sqlite=sqlite), *going_back()]
    if plan.only:
        return [each for each in known if each.name in plan.only]
    return known


def run(plan: RunPlan, folder: Path, *, say: Callable[[str], object] = lambda _: None) -> Report:
    """Everything from the start of the servers to the report."""
    with World(folder, fsync=plan.fsync, archive_url=plan.archive_url) as world:
        for _ in range(plan.workers):
            world.fleet.add()
        _start_agents(world, plan)
        world.fleet.wait()
        chaos = _Chaos(world, plan)
        chaos.rage(plan.seconds)
        report = world.finish(within_s=plan.settle_s)
        say(", ".join(f"{name} {n}×" for name, n in sorted(chaos.done.items())))
        return report


def _start_agents(world: World, plan: RunPlan) -> None:
    styles = ("chat", "tools", "images", "small", "small", "small")
    for name, kind in (("s", "sync"), ("a", "async")):
        sessions = {f"{name}{at}": style for at, style in enumerate(styles)}
        world.agent(name, sessions, kind=kind, seed=plan.seed, burst=plan.burst)
    if plan.burst:
        sessions = {f"b{at}": "small" for at in range(BURST_SESSIONS)}
        world.agent("b", sessions, kind="async", seed=plan.seed, burst=plan.burst)
    # Two writers in one session.
    world.agent("t", {"s3": "small", "a0": "chat"}, kind="async", seed=plan.seed)


class _Chaos:
    """Two gremlins at a time."""

    def __init__(self, world: World, plan: RunPlan) -> None:
        self.done: Counter[str] = Counter()
        self._world = world
        self._plan = plan
        self._gremlins = all_gremlins(plan)
        self._busy: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._errors: list[BaseException] = []

    def rage(self, seconds: float) -> None:
        """Break things for so long; all of it is mended in the end.

        Raises:
            Exception: what a fault itself raised: then the run says nothing.
        """
        end_s = time.monotonic() + seconds
        threads = [threading.Thread(target=self._break, args=(at, end_s)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _break(self, number: int, end_s: float) -> None:
        rng = random.Random(f"{self._plan.seed} {number}")
        try:
            while time.monotonic() < end_s:
                time.sleep(rng.uniform(0.1, 0.8))
                gremlin = rng.choice(self._gremlins)
                if self._busy[gremlin.target].acquire(blocking=False):
                    try:
                        gremlin.run(self._world, rng)
                    finally:
                        self._busy[gremlin.target].release()
                    self.done[gremlin.name] += 1
        except BaseException as error:  # noqa: BLE001 - raised again by the one who waits
            self._errors.append(error)


def main() -> int:
    """Read the arguments, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fsync", choices=("everysec", "always"), default="everysec")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--settle-s",
        type=float,
        default=SETTLES_WITHIN_S,
        help="more on a machine that is busy, and for a larger burst: most of it is queued work",
    )
    parser.add_argument("--burst", type=int, default=50, help="most turns of one call; 0 for few")
    parser.add_argument(
        "--only", nargs="*", default=[], help="names of faults, such as 'cut the journal'"
    )
    said = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="turnmill-chaos-"))
    sys.stdout.write(f"seed {said.seed}, in {folder}\n")
    sys.stdout.flush()
    report = run(
        RunPlan(**vars(said)), folder / "run", say=lambda line: sys.stdout.write(f"{line}\n")
    )
    sys.stdout.write(f"{report}\n")
    if report.violations:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
