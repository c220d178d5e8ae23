"""Headless Chromium, to see what a page does when a person opens it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["dom", "requires_chromium"]

_BINARY = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

requires_chromium = pytest.mark.skipif(_BINARY is None, reason="no Chromium is installed")


def dom(file: Path, *, log: Path | None = None, mark: str = "", width: int = 1400) -> str:
    """The document after its scripts ran; ``log`` is where Chromium writes all its requests."""
    command = [
        *(str(_BINARY), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
        f"--window-size={width},900",
        *("--virtual-time-budget=3000", f"--user-data-dir={file.parent / 'profile'}"),
        *([f"--log-net-log={log}"] if log else []),
        f"{file.as_uri()}{mark}",
    ]
    done = subprocess.run(command, capture_output=True, timeout=100, check=True)
    return done.stdout.decode()
