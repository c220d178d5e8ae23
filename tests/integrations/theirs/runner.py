"""Runs a framework's own tests with a class of ours in place of theirs.

A folder beside this file per framework. ``plugin.py`` is a pytest plugin that puts our class where
theirs was. ``<framework>.toml`` says where their tests are, which of their ``files`` to run with
which ``options``, how many pass at ``least``, and which cannot pass (see ``exclusions.py``).

Their tests are not part of this project. They come from the folder ``TURNMILL_THEIR_TESTS``, which
holds unpacked source distributions and checkouts, or, where the framework's ``sdist`` has them,
from the package index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

__all__ = ["FRAMEWORKS", "run", "sources", "table_of"]

HERE = Path(__file__).parent
FRAMEWORKS = sorted(path.stem for path in HERE.glob("*/*.toml"))


def table_of(framework: str) -> Mapping[str, Any]:
    """What the framework's file says."""
    return tomllib.loads((HERE / framework / f"{framework}.toml").read_text())


def sources(table: Mapping[str, Any], folder: Path) -> Path:
    """The framework's sources; skips where there are none."""
    name = table.get("sdist")
    wanted = f"{name.replace('-', '_')}-{version(name)}" if name else table["folder"]
    given = os.environ.get("TURNMILL_THEIR_TESTS")
    if given and (Path(given) / wanted).is_dir():
        return Path(given) / wanted
    if not name:
        pytest.skip(f"TURNMILL_THEIR_TESTS has no {wanted}, and no sdist has these tests")
    options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, f"{name}=={version(name)}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob(f"{wanted}.tar.gz"))
    if not archives:
        pytest.skip(f"{wanted} is neither here nor on the index: {done.stderr[-200:]}")
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python unpacks no archive safely: 3.11.4 does")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return folder / wanted


def run(framework: str, root: Path, env: Mapping[str, str], *, within_s: float) -> dict[str, int]:
    """Run their tests; the counts of pytest's last line, by outcome.

    Fails when a test fails that is not on the list, or one on the list passes.
    """
    table, own = table_of(framework), HERE / framework
    # What is installed stands before a checkout's own package, their tests before ours.
    installed = sysconfig.get_path("purelib")
    paths = [str(own), str(HERE), installed, str(root), *(path for path in sys.path if path)]
    plugins = ["-p", "exclusions", "-p", "plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
    options = ["-q", "-rfE", "--tb=short", *plugins, *table["options"]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *table["files"]],
        cwd=root,
        env={
            **os.environ,
            **env,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONSAFEPATH": "1",
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
