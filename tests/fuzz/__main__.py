"""``python -m tests.fuzz [SECONDS] [TARGET…]``: feed the parsers with bytes that atheris makes up.

Each target runs in a process of its own. What it fails on is left in ``build/fuzz/TARGET``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path("build/fuzz")
LONGEST: Final = 16_384
"""Bytes of an input: long enough for all that nests."""


def fuzz(target: str, seconds: str) -> None:
    """Run one target in this process; never returns."""
    import atheris  # noqa: PLC0415 - only where it fuzzes

    with atheris.instrument_imports(include=["turnmill", "turnmill_worker"]):
        from tests.fuzz.targets import SEEDS, TARGETS  # noqa: PLC0415

    corpus = FOLDER / target / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for at, seed in enumerate(SEEDS[target]):
        (corpus / f"seed-{at}").write_bytes(seed)
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=10"]
    found = f"-artifact_prefix={FOLDER / target}/"
    atheris.Setup([sys.argv[0], str(corpus), found, "-verbosity=0", *limits], TARGETS[target])
    atheris.Fuzz()


def main(seconds: str = "30", *asked: str) -> int:
    """Run the targets one after the other; 1 if one of them failed."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - not instrumented here

    failed = []
    for target in asked or TARGETS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "--one", target, seconds], check=False
        )
        print(f"{target}: {'failed' if done.returncode else 'held'}", flush=True)  # noqa: T201
        failed += [target] if done.returncode else []
    return bool(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(*sys.argv[2:4])
    sys.exit(main(*sys.argv[1:]))
