"""What lasts is found, stands once, says when it was changed, and is nobody's but the user's."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fit import labelled, measure
from turnmill.contract.names import Seq
from turnmill.contract.rules import UNMARKED, Mark
from turnmill_worker.reading.changes import may_change, replaces
from turnmill_worker.reading.own_words import own
from turnmill_worker.reading.passages import sentences
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.said import Said, is_shown, marked, restored, stored

# What users lay down stands once, says when it was changed, and ends when it is revoked.

RULE = "Always answer in German."
OTHER = "I'm allergic to peanuts."
BUDGET = "Keep the bundle under 200 KB."
NEWER = "Make that 300 KB instead of 200 KB."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def hear(said: Said, seq: int, text: str, mark: Mark = UNMARKED, **more: Any) -> None:
    own = [user(text)]
    said.hear(seq, Readings(len).of_turn(Seq(seq), own), own, mark, **more)


def heard(*texts: str) -> Said:
    said = Said()
    for seq, text in enumerate(texts, 1):
        hear(said, seq, text)
    return said


def rules(said: Said, through: int = 99) -> list[str]:
    return [rule.text for rule in said.standing((), through)]


def test_a_rule_is_kept_word_for_word_and_small_talk_is_not() -> None:
    said = heard(f"Hi there! {RULE} Thanks.", "The weather was fine yesterday.")

    assert [(rule.id, rule.text) for rule in said.standing((), 9)] == [("1", RULE)]


def test_a_later_condition_marks_the_rule_it_changes_and_both_stand() -> None:
    said = heard(BUDGET, "Go on.", NEWER)

    assert said.changed_by(2) == {}
    assert said.changed_by(3) == {BUDGET: 3}
    assert [rule.revised for rule in said.standing((), 2)] == [None]
    [older, *_] = said.standing((), 3)
    assert (older.text, older.revised) == (BUDGET, 3)


def test_a_rule_that_was_revoked_does_not_come_back_and_a_request_that_states_it_says_so() -> None:
    said = heard(f"Sort my mail. {RULE}", OTHER)
    hear(said, 3, "", Mark(revokes="1"))

    later = Said(restored(stored(said.up_to(3))))

    assert rules(later) == [OTHER]
    assert marked(f"Sort my mail. {RULE}", later.changed_by(3)).endswith("(changed in turn 3)")
    assert rules(Said(restored(stored(said.up_to(2))))) == [RULE, OTHER]


def test_a_rule_of_several_lines_is_seen_in_the_turn_that_stays() -> None:
    text = "Sundays are sacred.\n\n  The cat comes first."
    said = Said()
    hear(said, 4, text, Mark(instructs=True))

    (rule,) = said.standing((), 9)

    assert is_shown(rule, [user(f"Mind you:\n{text}")])
    assert not is_shown(rule, [user("The cat comes first.")])


def test_what_was_said_is_known_again_after_it_was_stored() -> None:
    said = heard(RULE, BUDGET, NEWER, OTHER)
    kept = list(said.up_to(3))

    again = Said(restored(stored(kept)))

    assert max(each.seq for each in kept) == 3
    assert rules(again) == rules(said, 3)
    assert again.changed_by(3) == {BUDGET: 3}
    assert [each.past for each in said.up_to(2)] == [0, 0]


def test_what_is_kept_of_it_is_bounded_and_rules_outlast_other_sentences() -> None:
    said = heard(RULE, *(f"Order number {n} went to pier {n * 7}." for n in range(1_000)))

    kept = list(said.up_to(2_000))

    assert len(kept) == 400
    assert kept[0].text == RULE


# What a user writes themselves is told from what they quote or paste, by its shape.


def own_words(text: str) -> list[str]:
    pieces = list(sentences(text))
    return [piece for piece, is_own in zip(pieces, own(pieces, text), strict=True) if is_own]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix it:\n```\n# never call this\nx = 1\n```\nThanks!", ["Fix it:", "Thanks!"]),
        ("> Never email me again.\n\nWhat does he mean?", ["What does he mean?"]),
        ("<page>Never use tabs, ever.</page> Sum it up.", []),
        (
            "Can you fix this email:\n\nDear team,\nalways cc Bob on invoices.\nBest, Ann",
            ["Can you fix this email:"],
        ),
        (
            "The museum's terms came today:\n1. No food in the hall.\n2. No music.\nThat's bad.",
            ["The museum's terms came today:", "That's bad."],
        ),
        ("这是房东的邮件：\n院子里不得停车。\n\n可以吗？", ["这是房东的邮件：", "可以吗？"]),
        ("The customer said: never call me again. Now what?", ["Now what?"]),
    ],
)
def test_what_is_quoted_or_pasted_is_not_ones_own(text: str, expected: list[str]) -> None:
    assert own_words(text) == expected


# Which later sentence replaces an earlier one: few are marked, and those are right.


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The API times out after 400 ms.", "We moved the API timeout to 250 ms."),
        ("Our kitchen budget is $3,000.", "The kitchen budget is now $4,500."),
        ("The launch is on 2026-03-08.", "The launch was pushed back to 03-22."),
    ],
)
def test_a_new_value_of_the_same_thing_replaces_the_old_one(older: str, newer: str) -> None:
    assert may_change(newer)
    assert replaces(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The API times out after 400 ms.", "The database answered within 250 ms."),
        ("The thesis has 62 pages.", "The appendix has 18 pages."),
        ("Don't worry, progress takes time.", "Progress is key, so keep pushing."),
        ("We never deploy on Fridays.", "We have pizza on Fridays."),
    ],
)
def test_what_is_said_of_something_else_replaces_nothing(older: str, newer: str) -> None:
    assert not replaces(older, newer)
    assert not replaces(older, newer, rule=True)


def test_a_rule_is_also_taken_back_without_another_value() -> None:
    older = "Never mention the merger to anybody."
    newer = "You can mention the merger now, it is public."

    assert replaces(older, newer, rule=True)
    assert not replaces(older, newer)


def test_of_what_was_kept_aside_some_is_found_and_next_to_nothing_marked_wrongly() -> None:
    rows = {row.name: row for row in measure.pair_rows()}
    remarks, sessions = rows["changes: remarks"], rows["changes: sessions"]

    assert remarks.found >= 0.15 * remarks.whole
    assert remarks.taken <= 0.08 * remarks.others
    assert sessions.taken <= 0.0006 * sessions.others


# A sentence that lays down something that lasts scores above the bound, in any language.


def test_most_rules_are_found_that_were_kept_aside_and_little_else() -> None:
    rows = {row.name.removeprefix("rules: "): row for row in measure.rule_rows()}
    bounds = {
        "sessions": (0.7, 0.055),
        "freely_worded": (0.7, 0.065),
        "logs": (0.71, 0.055),
        "languages": (0.65, 0.065),
    }

    for name, (least, most) in bounds.items():
        row = rows[name]
        assert row.found >= least * row.whole, row
        assert row.taken <= most * row.others, row


def test_no_message_that_measures_was_fitted_to() -> None:
    fitted, kept = (
        {
            message.text
            for where in (folder, folder / labelled.BESIDE)
            for messages in labelled.messages(where).values()
            for message in messages
        }
        for folder in (labelled.FITTED, labelled.HELD_OUT)
    )

    assert len(fitted) > 45_000
    assert fitted.isdisjoint(kept)
