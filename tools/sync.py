"""Write ``client/_sync`` from ``client/_async``; with ``--check`` only say what differs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

CLIENTS = Path(__file__).parents[1] / "producer" / "turnmill" / "client"

GENERATED = ("client.py", "connection.py", "session.py")
"""``trips.py`` is a pair written by hand: what truly differs."""

RENAMED = {
    r"one per event loop, shared by its tasks": "safe to share between threads",
    r"\basynchronous\b": "synchronous",
    r"\bAsync(?=[A-Z])": "",
    r"\bredis\.asyncio\b": "redis",
    r"\bturnmill\.client\._async\b": "turnmill.client._sync",
    r"\.aclose\(": ".close(",
}
"""What takes more than leaving out ``async`` and ``await``: names, and words in docstrings."""


def main(*options: str) -> int:
    """Generate, or check; returns the exit code."""
    texts = {CLIENTS / "_sync" / name: synchronous(name) for name in GENERATED}
    stale = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    if "--check" in options:
        for path in stale:
            print(f"{path}: not what `make sync` writes", file=sys.stderr)
        return len(stale)
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
    return 0


def synchronous(name: str) -> str:
    """The synchronous twin of a module of ``_async``."""
    text = (CLIENTS / "_async" / name).read_text(encoding="utf-8")
    for old, new in RENAMED.items():
        text = re.sub(old, new, text)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "_async", name)
        source.parent.mkdir()
        source.write_text(text, encoding="utf-8")
        unasync.unasync_files([str(source)], [unasync.Rule("/_async/", "/_sync/")])
        text = Path(folder, "_sync", name).read_text(encoding="utf-8")
    header = f"# Generated from _async/{name}: change that, then run `make sync`.\n"
    return formatted(header + text, CLIENTS / "_sync" / name)


def formatted(text: str, path: Path) -> str:
    """The text as `ruff` leaves it at this path: its imports in order, and formatted."""
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(path), "-"]
    for how in (["check", "--fix-only", "--quiet", "--select", "I"], ["format"]):
        done = subprocess.run(
            [*ruff, *how, *name], input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
