"""What a user writes themselves is told from what they quote or paste, by its shape."""

from __future__ import annotations

import pytest

from tests.effort import least_cpu_s
from turnmill_worker.reading.own_words import hands_over, is_talk, own
from turnmill_worker.reading.passages import sentences


def own_words(text: str) -> list[str]:
    pieces = list(sentences(text))
    return [piece for piece, is_own in zip(pieces, own(pieces, text), strict=True) if is_own]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix it:\n```\n# never call this\nx = 1\n```\nThanks!", ["Fix it:", "Thanks!"]),
        ("> Never email me again.\n\nWhat does he mean?", ["What does he mean?"]),
        ("<page>Never use tabs, ever.</page> Sum it up.", []),
        ('She wrote "Always book aisle seats, please" once.', []),
        ("def f():\n    # never call this twice\n    return 1", []),
        ("ERROR 2024-03-01 request must include a token", []),
        (
            "Can you fix this email:\n\nDear team,\nalways cc Bob on invoices.\nBest, Ann",
            ["Can you fix this email:"],
        ),
        (
            "The museum's terms came today:\n1. No food in the hall.\n2. No music.\nThat's bad.",
            ["The museum's terms came today:", "That's bad."],
        ),
        (
            "log from this morning:\n\n07:10 job started\n07:11 WARN must not be null\n\nit was ok",
            ["log from this morning:", "it was ok"],
        ),
        (
            "Hier ist die Mail vom Vermieter:\nKeine Räder im Hof.\n\nDarf er das?",
            ["Hier ist die Mail vom Vermieter:", "Darf er das?"],
        ),
        ("这是房东的邮件：\n院子里不得停车。\n\n可以吗？", ["这是房东的邮件：", "可以吗？"]),
        ("The customer said: never call me again. Now what?", ["Now what?"]),
    ],
)
def test_what_is_quoted_or_pasted_is_not_ones_own(text: str, expected: list[str]) -> None:
    assert own_words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "My rules:\n- No food in the hall.\n- Music stops at 11 pm.\nThanks!",
        "Bitte halte dich daran:\n- Nie vor acht anrufen.\n- Immer auf Deutsch.",
        "以后所有回答都要：\n- 用中文\n- 不超过三句",
        "Seat preference: by the window if there is one",
        "<user_query>Never use tabs in this repo. Fix the build.</user_query>",
        'Say "sir" to me. Never "mate".',
    ],
)
def test_what_a_user_lays_down_stays_their_own_however_it_is_set(text: str) -> None:
    assert own_words(text) == list(sentences(text))


@pytest.mark.parametrize("line", ["x = f(y);", '{"a": 1}', "12:03 INFO ready", "$ ls -l", ""])
def test_code_and_output_are_no_talk(line: str) -> None:
    assert not is_talk(line)


@pytest.mark.parametrize("line", ["ok thanks", "Nie vor acht.", "用中文回答", "Why x = y?"])
def test_short_and_sloppy_sentences_are_talk(line: str) -> None:
    assert is_talk(line)


def test_a_colon_that_hands_over_sounds_unlike_one_that_lays_down() -> None:
    assert hands_over("the mail from my bank") > 0 > hands_over("my rules for all mails")


@pytest.mark.parametrize(
    "part", ["a: ", '"', "“", "<a>", "</a><a>", "x:\n", "```\n", "- ", "「", "> "]
)
def test_a_million_characters_of_anything_take_a_second_at_most(part: str) -> None:
    text = part * (100_000 // len(part))
    pieces = [text[at : at + 600] for at in range(0, len(text), 600)]

    assert least_cpu_s(lambda: own(pieces, text)) < 0.1 * SLOWER


SLOWER = 5
"""What a busy machine may take beyond it."""
