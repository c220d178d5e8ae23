"""What `mkdocs build` needs beside docs/: the pages at the root, and files that pages link to.

Links stay as they are on the project's host, where ``README.md`` links to ``docs/guide.md`` and a
page of docs/ to ``../SECURITY.md``. Here they are turned to where the site has these files.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
"""Where the site has the pages of the repository's root."""
LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def place(target: str) -> str:
    """Where the site has a file of the repository."""
    return PAGES.get(target) or target.removeprefix("docs/")


def linked(page: Path) -> set[str]:
    """The files outside docs/ that a page links to, from the repository's root."""
    folder = page.parent.relative_to(ROOT).as_posix()
    targets = {normpath(join(folder, found[2])) for found in LINK.finditer(page.read_text())}
    return {each for each in targets if not each.startswith("docs/") and (ROOT / each).is_file()}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the root, and what is linked as a file, also by pages that are."""
    names, pages = set(PAGES), [*(ROOT / name for name in PAGES), *(ROOT / "docs").rglob("*.md")]
    while pages:
        new = {each for page in pages for each in linked(page)} - names
        names |= new
        pages = [ROOT / each for each in new if each.endswith(".md")]
    for name in sorted(names):
        if files.get_file_from_path(place(name)) is None:
            files.append(File.generated(config, place(name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links to where the site has their files; one to a folder becomes its text."""
    uri = page.file.src_uri
    at_docs = f"docs/{uri}" if (ROOT / "docs" / uri).is_file() else uri
    source = next((name for name, there in PAGES.items() if there == uri), at_docs)

    def turned(found: re.Match[str]) -> str:
        target = normpath(join(source, "..", found[2]))
        if (ROOT / target).is_dir():
            return found[1]
        there = relpath(place(target), join(uri, ".."))
        return f"[{found[1]}]({there}{found[3] or ''})"

    return LINK.sub(turned, markdown)
