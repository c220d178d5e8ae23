"""Each import contract is broken once, on a copy: a contract nothing can break holds nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOTS = ("producer", "worker", "cli")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
NAMES = {each["id"]: each["name"] for each in PROJECT["tool"]["importlinter"]["contracts"]}

WORKER = "worker/turnmill_worker"
BREACHES = [
    ("producer/turnmill/new_room.py", "", {"agents"}),
    (f"{WORKER}/new_room.py", "", {"workers"}),
    ("cli/turnmill_cli/new_room.py", "", {"commands"}),
    ("producer/turnmill/transport.py", "import turnmill_worker.errors", {"roots"}),
    (f"{WORKER}/requests/new.py", "import turnmill_cli.output", {"roots"}),
    ("producer/turnmill/commands/new.py", "import turnmill.transport", {"agents", "pure"}),
    ("producer/turnmill/contract/new.py", "import turnmill.transport", {"agents", "pure"}),
    ("cli/turnmill_cli/local/new.py", "import turnmill_cli.replay", {"commands"}),
    (f"{WORKER}/pipeline/ladder.py", "import redis", {"ports", "redis-calls"}),
    (f"{WORKER}/pipeline/new.py", "import turnmill.transport", {"ports"}),
    (f"{WORKER}/pipeline/new.py", "import turnmill_worker.archive.schema", {"ports", "workers"}),
    (f"{WORKER}/pipeline/decide.py", "import time", {"pure"}),
    (f"{WORKER}/compaction/new.py", "import turnmill_worker.ports", {"workers"}),
    (f"{WORKER}/compaction/new.py", "import turnmill.wake", {"pure"}),
    (f"{WORKER}/summarizers/extractive.py", "import os", {"pure"}),
    (f"{WORKER}/store/new.py", "import turnmill_worker.summarizers", {"workers"}),
    (f"{WORKER}/tasks.py", "import turnmill_worker.archive", {"wiring"}),
    (f"{WORKER}/background/new.py", "import turnmill_worker.archive", {"wiring"}),
    (f"{WORKER}/background/new.py", "import redis", {"redis-calls"}),
    (f"{WORKER}/requests/new.py", "import celery", {"celery-calls"}),
    (f"{WORKER}/wiring.py", "import openai", {"model-calls"}),
    (f"{WORKER}/store/new.py", "import turnmill._sync.client", {"transport"}),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    for root in ROOTS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(REPOSITORY / root, folder / root, ignore=ignored)
    return folder


def broken(copy: Path) -> set[str]:
    """The contracts that import-linter finds broken."""
    # Coverage would take the copy for the project.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo"],
        cwd=copy,
        env=environment | {"PYTHONPATH": os.pathsep.join(str(copy / root) for root in ROOTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = {
        name: line.removeprefix(label).split()[0]
        for line in done.stdout.splitlines()
        for name, label in NAMES.items()
        if line.startswith(label) and line != label
    }
    assert set(verdicts) == set(NAMES), done.stdout + done.stderr
    return {name for name, verdict in verdicts.items() if verdict == "BROKEN"}


@pytest.mark.parametrize(("path", "line", "contracts"), BREACHES)
def test_a_breach_is_found(copy: Path, path: str, line: str, contracts: set[str]) -> None:
    module = copy / path
    before = module.read_text() if module.exists() else None
    module.write_text(f"{before or ''}\n{line}\n")
    try:
        assert broken(copy) == contracts
    finally:
        module.unlink() if before is None else module.write_text(before)


def test_every_contract_is_broken_once() -> None:
    assert set().union(*(contracts for _, _, contracts in BREACHES)) == set(NAMES)
