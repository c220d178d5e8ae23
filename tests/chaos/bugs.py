"""`make chaos-bugs`: proof that the checker can fail.

Each bug is put into a copy of the packages, and a short run by chance must find it there, with the
faults that such a bug fears.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ROOTS = ("producer", "worker", "cli")
SECONDS = 15
FOUND_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Bug:
    """A line that somebody might have written.

    Attributes:
        pattern: what it replaces.
        feared: the faults that should show it.
    """

    name: str
    file: str
    pattern: str
    replacement: str
    feared: tuple[str, ...]


_STORE = "worker/turnmill_worker/store/lua"
BUGS = (
    Bug(
        "the archive ignores a turn whose place is taken, and Redis is trimmed",
        "worker/turnmill_worker/archive/writes.py",
        r"    if other:\n        raise ArchiveDiverged\(other\)\n",
        "",
        ("promote without tail",),
    ),
    Bug(
        "a commit compares nothing",
        f"{_STORE}/commit.lua",
        r"\nif [^\n]*seen\[1\] ~= epoch.*?\nend\n",
        "\n",
        ("wake a zombie", "double hints"),
    ),
    Bug(
        "a commit trims the log by count",
        f"{_STORE}/commit.lua",
        r"'MINID', string\.format\('%\.0f', watermark \+ 1\)",
        "'MAXLEN', 3",
        ("double hints",),
    ),
    Bug(
        "a push does not look whether the turn is there",
        "producer/turnmill/lua/push.lua",
        r"if known then",
        "if false then",
        ("break an agent between steps", "reset all connections"),
    ),
    Bug(
        "what was archived is trimmed by count",
        f"{_STORE}/drained.lua",
        r"\n(-- Entry by entry)",
        r"\nredis.call('XTRIM', covered, 'MAXLEN', 0)\n\1",
        ("break a worker between steps", "double hints"),
    ),
    Bug(
        "a read takes no notice of a commit that moved the watermark",
        "producer/turnmill/client/commands.py",
        r"return list\(reply\[0\][^\n]*",
        "return False",
        ("break an agent between steps",),
    ),
)


def changed(bug: Bug) -> str:
    """The text of its file with the bug."""
    file = REPOSITORY / bug.file
    text, count = re.subn(bug.pattern, bug.replacement, file.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{bug.name}: {bug.file} has its pattern {count} times")
    return text


def planted(bug: Bug, folder: Path) -> str:
    """Copy the packages with the bug; what PYTHONPATH must be to use them."""
    for root in ROOTS:
        shutil.copytree(REPOSITORY / root, folder / root)
    (folder / bug.file).write_text(changed(bug))
    return os.pathsep.join([*(str(folder / root) for root in ROOTS), str(REPOSITORY)])


def found(bug: Bug, seed: int) -> tuple[bool, float, str]:
    """Whether a run finds it, after how many seconds, and the first thing it says."""
    with tempfile.TemporaryDirectory(prefix="turnmill-bug-") as folder:
        path = planted(bug, Path(folder))
        command = [sys.executable, "-m", "tests.chaos", "--seconds", str(SECONDS)]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--seed", str(seed), "--only", *bug.feared],
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": folder},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("VIOLATION")]
    if not lines and done.returncode:
        raise RuntimeError(done.stderr)
    said = [line for line in lines if "left behind" not in line]  # may be a slow machine's fault
    return bool(said), time.monotonic() - began, said[0] if said else ""


def main() -> int:
    """Look for each; 1 when one stays unseen."""
    missed = 0
    for seed, bug in enumerate(BUGS):
        is_found, seconds, first = found(bug, seed)
        missed += not is_found or seconds > FOUND_WITHIN_S
        told = f"found in {seconds:.0f} s: {first}" if is_found else f"MISSED in {seconds:.0f} s"
        sys.stdout.write(f"{bug.name}\n    {told}\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
