"""Fit the language models of workers, and measure them on what they were not fitted to.

    pip install scikit-learn  # for --fit
    python -m benchmarks.fit                        # one table
    python -m benchmarks.fit --data ../shared/data  # and what is marked in real conversations
    python -m benchmarks.fit --fit                  # write the weights first

Nothing is fitted to real conversations: their licences differ. The same data give the same bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import turnmill_worker.reading
from benchmarks.fit import changes, common, leads, measure, rules

WEIGHTS = Path(turnmill_worker.reading.__path__[0]) / "weights"
MODELS = {"common": common, "leads": leads, "rules": rules, "changes": changes}
"""In this order: what is common is known to the last one."""

SHOWN = 30


def fit(name: str) -> None:
    """Writes the weights of one model."""
    path = WEIGHTS / f"{name}.bin"
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(MODELS[name].weights())
    print(f"{path.name}: {'the same' if path.read_bytes() == before else 'other'} weights")


def table(data: Path | None) -> None:
    """Prints what is found and taken."""
    print(f"{'':24}{'n':>6}{'found':>8}{'others':>8}{'taken':>8}")
    for row in (*measure.rule_rows(), *measure.pair_rows()):
        print(row)
    for path in sorted(data.glob("*.jsonl.gz")) if data else ():
        row, marked = measure.talk(path)
        print(row, *(f"    {older}\n     -> {newer}" for older, newer in marked[:SHOWN]), sep="\n")


def main() -> None:
    """Fits, if asked to, and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder of real conversations")
    parser.add_argument("--fit", nargs="*", choices=MODELS, help="write new weights: all, or these")
    options = parser.parse_args()
    if options.fit is not None:
        for name in options.fit or MODELS:
            # Each in a process of its own: the models read weights once.
            ask = f"from benchmarks.fit.__main__ import fit; fit({name!r})"
            subprocess.run([sys.executable, "-c", ask], check=True)
    table(options.data)


if __name__ == "__main__":
    main()
