"""A rule of which a later one takes back a part stays, and says until when."""

from __future__ import annotations

import pytest

from turnmill.contract.names import Seq
from turnmill.contract.render import rule_line
from turnmill.contract.rules import UNMARKED, Mark, Rule
from turnmill.rules.standing import Said, in_force


def said(seq: int, text: str, mark: Mark = UNMARKED) -> Said:
    return Said(Seq(seq), [{"role": "user", "content": text}], mark)


def standing(*told: str) -> tuple[Rule, ...]:
    return in_force((), [said(seq, text) for seq, text in enumerate(told, 1)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Keep answers brief and use imperial units.",
            "Make replies funny, and always use metric units.",
        ),
        ("I want short answers without emojis.", "I'd rather get friendly answers."),
        ("Show all times in UTC.", "For the guest list, show times in Eastern time."),
        ("Always answer in German.", "Write code comments in English."),
        ("Call me Max.", "Please call me Moritz from now on."),
        ("Call me Jo.", "Nenn mich bitte Johanna."),
    ],
)
def test_a_rule_taken_back_in_part_stays_and_says_so(old: str, new: str) -> None:
    first, second = standing(old, new)

    assert first.revised == second.seq
    assert rule_line(first) == f"- (turn 1) {old} (changed in turn 2)"
    assert second.revised is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Use Celsius for recipes.", "Use Fahrenheit for weather reports."),
        ("Always answer in German.", "I prefer Italian food."),
        ("Show all prices in euros.", "My budget is 900 dollars."),
        ("I want short answers.", "I prefer window seats."),
        ("Keep answers brief and use metric units.", "Always keep answers polite."),
        ("Call me Sam in chats.", "Call me Dr. Reyes in letters."),
        ("Call me Max.", "Please call me only in emergencies."),
    ],
)
def test_rules_of_different_things_leave_each_other_alone(old: str, new: str) -> None:
    assert [rule.revised for rule in standing(old, new)] == [None, None]


def test_a_rule_holds_whole_again_when_the_later_one_ends() -> None:
    told = [
        said(1, "Always answer in German."),
        said(2, "Write code comments in English."),
        said(3, "This ends.", Mark(revokes="2")),
    ]

    [rule] = in_force((), told)

    assert rule.revised is None


def test_the_mark_is_kept_with_the_context() -> None:
    stored = standing("Always answer in German.", "Write code comments in English.")

    later = in_force(stored, [said(9, "Never email me.")])

    assert later[:2] == stored
