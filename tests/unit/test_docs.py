"""What the documents point at exists: links, anchors, files, modules, tests and commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from turnmill_cli.app import app

ROOT = Path(__file__).parents[2]
FOUND = {*ROOT.glob("*.md"), *ROOT.glob("deploy/*.md"), *(ROOT / "docs").rglob("*.md")}
PAGES = sorted(FOUND - {ROOT / "CHANGELOG.md"})

pytestmark = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def code(page: Path) -> list[str]:
    """The lines of the page's blocks of code, and what stands between backticks."""
    blocks = re.findall(r"^(`{3,})\w*\n(.*?)^\1$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [
        *(line for _, block in blocks for line in block.splitlines()),
        *re.findall(r"^ {4,}(\S.*)$", prose(page), re.MULTILINE),
        *re.findall(r"`([^`\n]+)`", prose(page)),
    ]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    shown = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in shown}


def test_every_relative_link_and_anchor_resolves(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", prose(page))

    for target, anchor in links:
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{target} is linked"
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor} is linked"


def test_every_command_exists(page: Path) -> None:
    commands = getattr(get_command(app), "commands", {})
    named = {
        found[1] for text in code(page) if (found := re.match(r"turnmill ([a-z][a-z-]*)", text))
    }

    assert named <= set(commands)
