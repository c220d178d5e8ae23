"""A list of exclusions is strict: what is on it must fail, and must be there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
THEIRS = "def test_good():\n    pass\n\n\ndef test_bad():\n    assert False\n"


def run(folder: Path, *excluded: str) -> tuple[int, str]:
    (folder / "test_theirs.py").write_text(THEIRS)
    listed = folder / "excluded.toml"
    listed.write_text(f'[[excluded]]\nreason = "other storage"\ntests = {list(excluded)}\n')
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rx", "-p", "exclusions", "test_theirs.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), "TURNMILL_EXCLUSIONS": str(listed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("excluded", "is_good", "said"),
    [
        (("test_theirs.py::test_bad",), True, "1 passed, 1 xfailed"),
        (("test_theirs.py::test_bad", "test_theirs.py::test_good"), False, "[XPASS(strict)]"),
        (("test_theirs.py::test_bad", "test_theirs.py::test_gone"), False, "test_gone"),
    ],
    ids=["fails", "passes", "is not there"],
)
def test_the_list_is_strict(
    tmp_path: Path,
    excluded: tuple[str, ...],
    is_good: bool,  # noqa: FBT001
    said: str,
) -> None:
    code, output = run(tmp_path, *excluded)

    assert (code == 0) is is_good
    assert said in output
