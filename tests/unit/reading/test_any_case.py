"""A pattern for any case finds what one that ignores case finds, where it stands."""

from __future__ import annotations

import re

import pytest

from turnmill_worker.old_reading.any_case import AnyCase

PATTERN = r"\b(?:changed?|(?P<day>märz|monday)|straße|\W?x\d)\b"
TEXTS = (
    "",
    "nothing here",
    "We CHANGED it on Monday, and chang is no word; X1 is",
    "STRASSE, Straße, STRAßE im März, MÄRZ und Change",
    "İmonday monday ſ K changed",
)


@pytest.mark.parametrize("text", TEXTS)
def test_it_finds_the_same_places_and_groups(text: str) -> None:
    found, wanted = AnyCase(PATTERN), re.compile(PATTERN, re.IGNORECASE)

    for at in range(len(text) + 1):
        for name in ("search", "match", "fullmatch"):
            one, other = (getattr(each, name)(text[at:]) for each in (found, wanted))
            assert place(one) == place(other)
        assert place(found.matcher(text)(at)) == place(wanted.match(text, at))
    places = [place(each) for each in found.finditer(text)]
    assert places == [place(each) for each in wanted.finditer(text)]
    assert found.sub("…", text) == wanted.sub("…", text)


def test_a_pattern_with_capitals_is_refused() -> None:
    AnyCase(r"\W\S(?P<a>x)(?P=a)")

    with pytest.raises(ValueError, match="has capitals"):
        AnyCase("[A-Z]x")


def place(match: re.Match[str] | None) -> tuple[tuple[int, int], str | None, list[bool]] | None:
    if match is None:
        return None
    return match.span(), match.lastgroup, [group is not None for group in match.groups()]
