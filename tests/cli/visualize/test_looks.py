"""What the style promises: text that can be read on every ground, in light, dark and print."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import product

import pytest

CSS = (files("turnmill_cli.visualize") / "page.css").read_text(encoding="utf-8")
SCHEMES = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
GROUNDS = ("page", "card", "code")
TEXTS = ("ink", "soft-ink", "line", "hard", "soft", "compaction", "rollback", "cleared")
ROLES = ("user", "assistant", "tool", "system")
LEAST = 4.5


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rrggbb."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", range(3), ids=["light", "dark", "print"])
def test_every_text_stands_out_from_every_ground(scheme: int) -> None:
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6,8});", SCHEMES[scheme]))

    for ground, text in product(GROUNDS, TEXTS + ROLES):
        light, dark = sorted(map(luminance, (colours[ground], colours[text])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= LEAST, (ground, text)


def test_the_style_asks_no_server() -> None:
    assert "url(" not in CSS
    assert "@import" not in CSS
