"""What the image installs is fixed to the byte: versions that are tested, with their hashes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.deploy.compose import REPOSITORY
from tests.deploy.test_requirements import asked_for

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
