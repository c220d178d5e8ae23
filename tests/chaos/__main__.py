"""`python -m tests.chaos`: a run by chance, five minutes by default; ends with 1 on a violation."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.driver import RunPlan, run
from tests.chaos.world import SETTLES_WITHIN_S


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
