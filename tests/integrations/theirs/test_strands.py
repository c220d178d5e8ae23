"""Strands' own tests, with our conversation manager in the place of their default one.

``TURNMILL_THEIR_TESTS`` names a folder with the unpacked sdist, or it is downloaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("strands")

HERE = Path(__file__).parent / "strands"
TABLE = tomllib.loads((HERE / "strands.toml").read_text())


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the unpacked sdist."""
    name = f"strands_agents-{version('strands-agents')}"
    given = os.environ.get("TURNMILL_THEIR_TESTS")
    if given and (Path(given) / name).is_dir():
        return Path(given) / name
    folder = tmp_path_factory.mktemp("theirs")
    download = ["pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    wanted = f"strands-agents=={version('strands-agents')}"
    done = subprocess.run(
        [sys.executable, "-m", *download, "--dest", str(folder), wanted],
        capture_output=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        pytest.skip("TURNMILL_THEIR_TESTS is not set, and the sdist cannot be downloaded")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as packed:
        packed.extractall(folder, filter="data")
    return folder / name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_but_the_listed_pass(theirs: Path) -> None:
    options = ["-p", "plugin", "-p", "no:randomly", "-o", "addopts=", "-q", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *TABLE["files"]],
        cwd=theirs,
        env={**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    found = re.search(r"(\d+) passed, (\d+) xfailed", done.stdout)
    assert found
    assert int(found[1]) >= 400
