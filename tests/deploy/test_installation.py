"""What pyproject.toml asks for is enough: nothing works only because a tool brought it along."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.compose import REPOSITORY
from turnmill_cli.app import COMMANDS

MODULES = {
    f"turnmill_cli.{place.partition(':')[0]}"
    for commands in COMMANDS.values()
    for place in commands.values()
}
"""Of all commands: each is imported when it is used, all of them for the help."""

OURS = {"turnmill", "turnmill-worker"}

WITHOUT = """
import sys
missing = frozenset(sys.argv[1].split(","))
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
for module in sys.argv[2:]:
    __import__(module)
"""


def asked_for(*extras: str, python: str = platform.python_version()) -> set[str]:
    """The distributions that installing turnmill with these extras brings along, for a Python."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    options: dict[str, list[str]] = project["optional-dependencies"]
    wanted = [(Requirement(text), "") for text in project["dependencies"]]
    wanted += [(Requirement(f"turnmill[{','.join(extras)}]"), "")] if extras else []
    found: set[str] = set()
    done: set[tuple[str, str]] = set()
    while wanted:
        asked, extra = wanted.pop()
        name = canonicalize_name(asked.name)
        if asked.marker is not None and not asked.marker.evaluate(
            {"extra": extra, "python_full_version": python}
        ):
            continue
        for own in ("", *asked.extras):
            if (name, own) in done:
                continue
            done.add((name, own))
            if name == "turnmill":
                wanted += [(Requirement(text), "") for text in options.get(own, [])]
                continue
            found.add(name)
            wanted += [(Requirement(text), own) for text in _required(name)]
    return found


def _required(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # for another system or Python
        return []


@pytest.mark.parametrize(
    ("extras", "modules"),
    [
        ((), ("turnmill", "turnmill.hint.waker", "celery.app.amqp", "kombu.transport.redis")),
        (("cli",), ("turnmill_cli.app", "turnmill.testing", *MODULES)),
        (
            ("worker",),
            (
                "turnmill_worker.tasks",
                "turnmill_worker.wiring",
                "turnmill_worker.archive.store",
                "turnmill_worker.summarizers.openai.factory",
                "kombu.transport.redis",
            ),
        ),
        (("mcp",), ("turnmill.server.mcp", "turnmill.server.app")),
        (
            ("server",),
            ("turnmill.server.app", "turnmill_cli.commands.serve", "uvloop", "httptools"),
        ),
        (("flower",), ("flower.command", "kombu.transport.redis")),
    ],
)
def test_an_installation_has_what_it_imports(
    extras: tuple[str, ...], modules: tuple[str, ...]
) -> None:
    asked = asked_for(*extras)
    missing = [
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & (asked | OURS)
    ]
    assert "pytest" in missing

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT, ",".join(missing), *modules],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


LINE = re.compile(r"([\w.-]+)(?:\[.*\])?==([^ ;]+)(?: ;[^-]*)?(?: +--hash=sha256:[0-9a-f]{64})+")
LOCKS = ("requirements.lock", "build.lock")


def locked(name: str) -> dict[str, str]:
    """The version of each distribution; every one has a hash."""
    text = (REPOSITORY / "deploy" / name).read_text().replace("\\\n", " ")
    found: dict[str, str] = {}
    for line in text.splitlines():
        entry = LINE.fullmatch(line)
        assert entry, line
        found[canonicalize_name(entry[1])] = entry[2]
    return found


def constraints() -> dict[str, str]:
    """What constraints.txt says."""
    lines = Path(REPOSITORY / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_the_versions_that_are_tested(name: str) -> None:
    found, known = locked(name), constraints()

    assert found
    assert {each: version for each, version in found.items() if known.get(each) != version} == {}


def test_the_lock_has_all_that_the_image_needs() -> None:
    assert (
        asked_for("worker", "flower", "postgres", "tokenizers", python="3.12.0")
        <= locked("requirements.lock").keys()
    )
    assert "hatchling" in locked("build.lock")


@pytest.mark.parametrize("name", [*LOCKS, "../constraints.txt"])
def test_no_file_names_where_packages_come_from(name: str) -> None:
    text = (REPOSITORY / "deploy" / name).read_text()

    assert not re.search(r"://|--(?:extra-)?index-url|--find-links", text)


def test_the_image_installs_nothing_without_a_known_hash() -> None:
    text = (REPOSITORY / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install [^&\n]*", text)

    assert len(installs) == len(LOCKS) + 1
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
