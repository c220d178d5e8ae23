"""A pytest plugin: tests on a list must fail, each for its reason; all others must pass.

Runs in a process of its own, inside a framework's tests, where this project's ``tests`` is another
package: it imports nothing of it. The list is a TOML file, named by ``TURNMILL_EXCLUSIONS``: under
``[[excluded]]`` a ``reason`` and ``tests``, as ``file.py::name`` with parameters or for all, or as
a name alone. A test that would never end is not run: ``runs = false``.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

__all__ = ["pytest_collection_modifyitems"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests on the list; refuse a list that names tests which do not exist."""
    listed = tomllib.loads(Path(os.environ["TURNMILL_EXCLUSIONS"]).read_text())["excluded"]
    excluded = {name: each for each in listed for name in each["tests"]}
    unknown = set(excluded)
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for key in (name, name.partition("[")[0], item.name.partition("[")[0]):
            if key in excluded:
                unknown.discard(key)
                runs, reason = excluded[key].get("runs", True), excluded[key]["reason"]
                item.add_marker(pytest.mark.xfail(reason=reason, run=runs, strict=True))
                break
    if unknown:
        raise pytest.UsageError(f"on the list, and nowhere else: {sorted(unknown)}")
