"""Rules are found in words that no pattern knows, in messages the weights were not fitted to."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fit_rules import (
    BESIDE,
    FITTED,
    HELD_OUT,
    SESSIONS,
    Message,
    found_and_taken,
    typed,
    written,
)
from tests.effort import assert_linear
from turnmill.contract.names import Seq
from turnmill.rules.find import find_rules
from turnmill.rules.kinds import Kind, Rule
from turnmill.rules.scored import BUCKETS, buckets, score
from turnmill.rules.standing import fitting


def messages(folder: Path) -> list[Message]:
    return list(written(*folder.rglob("*.txt")))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("mixed", 0.8, 0.095), ("freely_worded", 0.7, 0.07), ("logs", 0.71, 0.055)],
)
def test_most_rules_are_found_in_words_that_nobody_prepared_for(
    name: str, least: float, most: float
) -> None:
    # Of the others half were written to be taken for rules: they share their words and shapes.
    # Those of the logs were not, and nothing was chosen by them.
    held_out = list(written(HELD_OUT / f"{name}.txt"))

    found, taken = found_and_taken(held_out)

    assert len(held_out) >= 400
    assert found >= least
    assert taken <= most


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("plainly_worded", 0.8, 0.09),
        ("chinese", 0.34, 0.06),
        ("dutch", 0.65, 0.16),
        ("french", 0.55, 0.1),
        ("german", 0.48, 0.08),
        ("italian", 0.53, 0.1),
        ("japanese", 0.64, 0.07),
        ("korean", 0.57, 0.09),
        ("portuguese", 0.52, 0.1),
        ("russian", 0.6, 0.09),
        ("spanish", 0.58, 0.08),
    ],
)
def test_rules_are_found_in_ten_other_languages(name: str, least: float, most: float) -> None:
    # Plainly worded are those of all ten, with words such as always and allergic; of the freely
    # worded ones, most have no such word, and half of the others do.
    found, taken = found_and_taken(list(written(HELD_OUT / BESIDE / f"{name}.txt")))

    assert found >= least
    assert taken <= most


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Ich habe eine Erdnussallergie.", "Ich habe eine Erdnussallergie."),
        ("Ich esse kein Fleisch, was kann ich kochen?", "Ich esse kein Fleisch"),
        ("У меня астма.", "У меня астма."),
        ("我对花生过敏，晚饭吃什么？", "我对花生过敏"),
        ("卵アレルギーです。", "卵アレルギーです。"),
        ("천식이 있어요.", "천식이 있어요."),
    ],
)
def test_an_illness_is_found_in_other_languages_also_before_a_question(
    text: str, rule: str
) -> None:
    assert [clause.text for clause in find_rules(text)] == [rule]


def test_half_the_rules_are_found_that_people_lay_down_in_passing_over_a_whole_session() -> None:
    # Most of what they say comes near: the same things, habits, complaints, plans, wishes.
    found, taken = found_and_taken(list(typed(*(SESSIONS / "held_out").glob("*.txt"))))

    assert found > 0.5
    assert taken < 0.06


def test_no_message_that_measures_was_fitted_to() -> None:
    fitted = {each.text for each in messages(FITTED)}

    assert len(fitted) > 45_000
    assert fitted.isdisjoint(each.text for each in messages(HELD_OUT))


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("short answers suit me.", "the short answer suits me."),
        ("we only ship from oslo.", "they only shipped from oslo."),
        ("keep receipts for everything.", "keep hers."),
        ("i get carsick on winding roads.", "i got carsick on the road up."),
    ],
)
def test_what_lasts_sounds_more_like_a_rule_than_what_was_or_is_at_hand(
    rule: str, other: str
) -> None:
    assert score(rule) > score(other) + 1


def test_of_what_no_pattern_names_that_stays_which_sounds_most_like_a_rule() -> None:
    firm, loose = "Brandt stays out of all reports.", "Next the active customers."
    rules = tuple(
        Rule(seq=Seq(at), place=1, text=text, kind=Kind.POLICY)
        for at, text in enumerate((firm, loose), 1)
    )

    assert [rule.text for rule in fitting(rules, 24 + len(firm) + 20, len)] == [firm]


@pytest.mark.parametrize("clause", ["", "?", "\u2019", "x" * 5_000, "\ud800 never"])
def test_any_clause_has_a_score(clause: str) -> None:
    found = buckets(clause.encode("utf-8", "replace").decode())

    assert found
    assert all(0 <= each < BUCKETS for each in found)


@pytest.mark.parametrize("part", ["never ", "no-", "1.", "don't'"])
def test_a_score_costs_in_proportion_to_the_length_of_the_clause(part: str) -> None:
    assert_linear(lambda size: score(part * size), size=4_000)
