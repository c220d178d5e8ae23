"""The Makefile is the one list of commands: what git and CI run are its targets."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
MAKEFILE = (REPOSITORY / "Makefile").read_text()


def targets() -> set[str]:
    """Everything that can be made, except for files."""
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_the_hooks_of_git_are_the_parts_of_make_check() -> None:
    [check] = re.findall(r"^check: (.*?) *##", MAKEFILE, re.MULTILINE)
    [local] = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]

    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == [f"make {part}" for part in check.split()]


def test_ci_runs_targets_that_exist() -> None:
    ci = (REPOSITORY / ".ci" / "run").read_text()

    assert set(re.findall(r"^make ([a-z-]+)$", ci, re.MULTILINE)) == {"check", "test"}
    assert targets() >= {"check", "test"}


def test_no_target_is_taken_for_a_file() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)

    assert set(phony.split()) == targets()


def test_help_lists_every_target_that_says_what_it_does() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")

    shown = subprocess.run(
        [make, "--no-print-directory", "help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    told = re.findall(r"^([a-z-]+):.*## (.*)$", MAKEFILE, re.MULTILINE)
    assert sorted(shown.splitlines()) == sorted(f"{name}\t{what}" for name, what in told)
    assert {"check", "test", "test-fast"} <= {name for name, _ in told}
