"""A sentence that lays down something that lasts scores above the bound, in any language."""

from __future__ import annotations

import pytest

from benchmarks.fit import labelled, measure
from turnmill_worker.reading import rules


@pytest.mark.parametrize(
    "sentence",
    [
        "Always answer in German.",
        "dont touch anything in vendor/",
        "We never deploy on Fridays.",
        "I'm allergic to peanuts.",
        "Charges over $500 need my approval first.",
        "HARD CONSTRAINT: Report all times in UTC.",
        "From now on, keep replies under 50 words.",
        "Ich esse kein Fleisch.",
        "Ne réserve jamais avant dix heures.",
        "Siempre responde en español.",
        "Я не ем мясо.",
        "我对花生过敏。",
        "卵アレルギーです。",
    ],
)
def test_what_lasts_is_a_rule(sentence: str) -> None:
    assert rules.score(sentence) >= rules.least(1)


@pytest.mark.parametrize(
    "sentence",
    [
        "No promises.",
        "Never mind, I found it.",
        "Always a pleasure!",
        "Ada is employed by Brightwater.",
        "The library was founded in 1931.",
        "Pick a public function of `xml` and show me who uses it.",
        "Read the invoices and tell me the total.",
        "Stay strong and keep going!",
        "Nothing happens when I click on it.",
        "Go on.",
        "Was it always that slow?",
        "Heute ausnahmsweise ohne Zwiebeln.",
        "你觉得我应该先学Go还是Rust?",
        "",
    ],
)
def test_small_talk_facts_and_tasks_are_none(sentence: str) -> None:
    assert rules.score(sentence) < rules.least(1)


def test_more_is_asked_of_sentences_in_long_messages_which_are_material() -> None:
    assert rules.least(0) == rules.least(3) < rules.least(48) < rules.least(1_000)


@pytest.mark.parametrize("sentence", ["?", "\u2019", "x" * 5_000, "7" * 700, "_" * 700])
def test_any_sentence_has_a_score(sentence: str) -> None:
    assert -50 < rules.score(sentence) < 50


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
