"""A rule said again in other words stands once; rules that only sound alike all stand."""

from __future__ import annotations

import pytest

from turnmill.contract.names import Seq
from turnmill.rules.standing import Said, in_force


def standing(*told: str) -> list[str]:
    turns = [
        Said(Seq(seq), [{"role": "user", "content": text}]) for seq, text in enumerate(told, 1)
    ]
    return [rule.text for rule in in_force((), turns)]


@pytest.mark.parametrize(
    ("told", "stays"),
    [
        (("Limit the hits to 8 rows.", "I've decided to limit search hits to 8 rows."), 1),
        (
            (
                "I'm trying to keep my game under 40MB, so I prefer small sprites over big ones.",
                "I want sounds that load late to keep the game size below 40MB.",
            ),
            0,
        ),
        (("I have a deadline of June 4 to finish the tour.", "My deadline is June 4."), 0),
        (("My deadline is June 4.", "I have a deadline of June 4 to finish the tour."), 1),
        (("I want the parcel within 5 days.", "I still want this parcel within 5 days."), 0),
        (
            (
                "I prefer plain, sturdy tools so that I can mend them.",
                "I prefer plain and sturdy tools.",
            ),
            0,
        ),
    ],
)
def test_what_is_said_again_in_other_words_stands_once(told: tuple[str, ...], stays: int) -> None:
    assert standing(*told) == [told[stays]]


@pytest.mark.parametrize(
    "told",
    [
        ("Keep the tablet app under 9 MB.", "Keep the watch app under 9 MB."),
        ("Keep the replies under 50 words.", "Keep the titles under 50 characters."),
        ("Keep the oven below 200 degrees.", "Keep the oven above 200 degrees."),
        ("The deadline for the grant is March 3.", "The deadline for the thesis is March 3."),
        ("I have a deadline of May 1 for the maps.", "I have a deadline of May 1 for the index."),
        (
            "I have a deadline of May 1 to file tax.",
            "I have a deadline of May 1 to hand in the form.",
        ),
        ("Don't touch the database.", "Don't touch the database of the shop."),
        ("Don't touch the database of the shop.", "Don't touch the database."),
        ("Never call my mother.", "Never call my mother-in-law."),
        ("Don't talk to the local press without me.", "Don't talk to the local press."),
        ("Keep the page under 2 MB.", "I prefer calm colours, and keep the page under 2 MB."),
    ],
)
def test_what_only_sounds_alike_stands_side_by_side(told: tuple[str, ...]) -> None:
    assert standing(*told) == list(told)
