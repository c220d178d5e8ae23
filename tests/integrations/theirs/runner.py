"""Runs a framework's own tests with a class of ours in place of theirs.

A folder beside this file per framework: ``plugin.py`` is a pytest plugin that puts our class where
theirs was, ``<framework>.toml`` lists the tests that cannot pass, with the reason. Their tests are
not part of this project: they come from the folder ``TURNMILL_THEIR_TESTS``, which holds unpacked
source distributions, or from the package index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

__all__ = ["run", "sources"]

HERE = Path(__file__).parent


def sources(name: str, folder: Path) -> Path:
    """The framework's sources, in the version that is installed; skips where there are none."""
    wanted = f"{name.replace('-', '_')}-{version(name)}"
    given = Path(os.environ.get("TURNMILL_THEIR_TESTS") or folder) / wanted
    if given.is_dir():
        return given
    options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, f"{name}=={version(name)}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob(f"{wanted}.tar.gz"))
    if not archives:
        pytest.skip(f"{wanted} is neither here nor on the index: {done.stderr[-200:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return folder / wanted


def run(
    framework: str, root: Path, files: Sequence[str], env: Mapping[str, str], *, within_s: float
) -> dict[str, int]:
    """Run these files of their tests; the counts of pytest's last line, by outcome.

    Fails when a test fails that is not on the list, or one on the list passes.
    """
    own = HERE / framework
    paths = [str(own), str(HERE), *(path for path in sys.path if path)]
    plugins = ["-p", "exclusions", "-p", "plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", *plugins, *files],
        cwd=root,
        env={
            **os.environ,
            **env,
            "PYTHONPATH": os.pathsep.join(paths),
            "TURNMILL_EXCLUSIONS": str(own / f"{framework}.toml"),
        },
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    last = done.stdout.strip().splitlines()[-1]
    return {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", last)}
