"""The API reference has every public name, once."""

from __future__ import annotations

import re
from pathlib import Path

import turnmill

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(page.read_text() for page in PAGES.glob("*.md"))

    assert sorted(re.findall(r"^::: turnmill\.(\w+)$", text, re.MULTILINE)) == sorted(
        turnmill.__all__
    )
