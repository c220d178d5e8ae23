"""A pytest plugin: tests on a list must fail, each for its reason; all others must pass.

Runs in a process of its own, inside a framework's tests, where this project's ``tests`` is another
package: it imports nothing of it. The list is a TOML file, named by ``TURNMILL_EXCLUSIONS``: under
``[[excluded]]`` a ``reason`` and ``tests``, as ``file.py::name``, with parameters or for all.
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
    reasons = {name: each["reason"] for each in listed for name in each["tests"]}
    unknown = set(reasons)
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for key in (name, name.partition("[")[0]):
            if key in reasons:
                unknown.discard(key)
                item.add_marker(pytest.mark.xfail(reason=reasons[key], strict=True))
                break
    if unknown:
        raise pytest.UsageError(f"on the list, and nowhere else: {sorted(unknown)}")
