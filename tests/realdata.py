"""The real conversations beside the repository: read in place, never copied into the project."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest


def _data_dir() -> Path | None:
    named = os.environ.get("TURNMILL_TEST_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


DATA_DIR: Path | None = _data_dir()
"""Where the sessions are: `TURNMILL_TEST_DATA`, or `../shared/data`, or None when neither is."""

requires_data = pytest.mark.skipif(
    DATA_DIR is None, reason="real conversations are not at ../shared/data"
)
"""Skips a test, saying so, where the real conversations are absent."""


def names() -> list[str]:
    """Return the names of the data sets at hand, sorted; empty when there is no data."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in _files())


def sessions(name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the first `limit` sessions (or all) of the data set `name`, such as `tau`.

    Raises FileNotFoundError when the data set, or all data, is absent: guard with `requires_data`.
    """
    if DATA_DIR is None:
        raise FileNotFoundError(name)
    with gzip.open(DATA_DIR / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, limit)]


def _files() -> list[Path]:
    return list(DATA_DIR.glob("*.jsonl.gz")) if DATA_DIR is not None else []
