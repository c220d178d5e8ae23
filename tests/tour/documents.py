"""The code of the README and the docs: blocks of Python, and lines that people type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)

_FENCED = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_TYPED = re.compile(
    r"^ {4}((?:turnmill|python|make|pip|git|export|docker|celery) .*)$", re.MULTILINE
)
_SHELLS = ("sh", "bash", "console")


class Typed(NamedTuple):
    """A line that the page tells people to type."""

    page: str
    line: str


def python_blocks(page: Path) -> list[str]:
    """The page's blocks of Python, in order."""
    return [body for _, language, body in _FENCED.findall(page.read_text()) if language == "python"]


def typed_lines() -> list[Typed]:
    """Every line of every block for a shell, and of indented ones; comments are taken off."""
    found = []
    for page in PAGES:
        text, name = page.read_text(), str(page.relative_to(ROOT))
        for _, language, body in _FENCED.findall(text):
            if language in _SHELLS:
                found += [Typed(name, line) for line in body.splitlines()]
        found += [Typed(name, line) for line in _TYPED.findall(_FENCED.sub("", text))]
    lines = [Typed(page, re.sub(r"\s+# .*", "", line).strip()) for page, line in found]
    return [each for each in lines if each.line]
