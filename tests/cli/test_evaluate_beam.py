"""The board of BEAM of `turnmill evaluate`, on a tiny chat made up for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Ran
from turnmill_cli.evaluate.boards.beam_chats import beam_chats
from turnmill_cli.evaluate.boards.stated import Lines, answers, superseded

SAID = [
    "Always give dates as day-month-year when I ask about deadlines.",
    "Our dashboard API answers in 400ms on average today.",
    "After more caching the dashboard API answers in 250ms on average.",
    "The first sprint ends on March 29.",
]
UPDATE = {
    "question": "What is the average answer time of the dashboard API?",
    "answer": "Around 250ms",
    "potential_confusion": "The original 400ms instead of the newer 250ms",
    "source_chat_ids": {"original_info": [2], "updated_info": [4]},
}
QUESTIONS = {
    "instruction_following": [{"question": "When is it due?", "instruction_being_tested": SAID[0]}],
    "information_extraction": [
        {"question": "When does my sprint end?", "answer": "On March 29", "source_chat_ids": [6]}
    ],
    "knowledge_update": [UPDATE],
}


@pytest.fixture
def run(turnmill: Callable[..., Ran]) -> Callable[..., Ran]:
    return partial(turnmill, "evaluate")


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    """A checkout with one chat: four things said, then much else."""
    folder = tmp_path / "BEAM" / "chats" / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    said = [*SAID, *(f"Tell me about town {at}, street by street." for at in range(40))]
    turns = [turn for at, text in enumerate(said) for turn in _exchange(at, text)]
    (folder / "chat.json").write_text(json.dumps([{"turns": [turns]}]))
    asked = folder / "probing_questions" / "probing_questions.json"
    asked.write_text(json.dumps(QUESTIONS))
    return tmp_path / "BEAM"


def _exchange(at: int, text: str) -> list[dict[str, Any]]:
    reply = " ".join(f"Street {at}-{n} is quiet and has trees." for n in range(20))
    return [
        {"id": str(2 * at), "role": "user", "content": text},
        {"id": str(2 * at + 1), "role": "assistant", "content": reply},
    ]


def test_a_chat_of_beam_is_read_with_its_rules_and_questions(beam: Path) -> None:
    (chat,) = beam_chats(beam)

    fact, update = chat.questions

    assert chat.rules == (SAID[0],)
    assert chat.said(fact.evidence[0]) == SAID[3]
    assert [chat.said(seq) for seq in update.earlier + update.evidence] == SAID[1:3]


def test_an_answer_is_wanted_by_the_digits_that_its_evidence_states(beam: Path) -> None:
    (chat,) = beam_chats(beam)

    fact, update = chat.questions

    assert answers(chat, fact) == [{"29"}]
    assert answers(chat, update) == [{"250"}]
    assert superseded(chat, update) == {"400"}


def test_a_rule_is_kept_when_one_line_has_four_fifths_of_its_words() -> None:
    assert Lines(["Rules:\n- give dates as day-month-year, I ask about deadlines"]).has_rule(
        SAID[0]
    )
    assert not Lines(["dates as day-month-year\nwhen I ask about deadlines"]).has_rule(SAID[0])


@pytest.mark.parametrize(
    ("line", "states"),
    [
        ("dashboard API answers in 400ms on average", 1),
        ("dashboard API answers in 400ms on average (until turn 5)", 0),
        ("dashboard API: average 250ms, 400ms once", 0),
        ("The printer needs 400ms", 0),
    ],
)
def test_an_old_value_counts_where_its_subject_stands_and_nothing_says_that_it_is_past(
    beam: Path, line: str, states: int
) -> None:
    (chat,) = beam_chats(beam)

    assert Lines([line]).state_superseded(chat.questions[1], frozenset({"400"})) == states


def test_the_board_of_beam_shows_the_pipeline_beside_baselines(
    run: Callable[..., Ran], beam: Path, tmp_path: Path
) -> None:
    contexts = tmp_path / "contexts"

    ran = run("--beam", str(beam), "--max-tokens", "1024", "--contexts", str(contexts), "--json")

    (board,) = ran.json
    assert set(board["rows"]) == {"rolling", "window", "head+tail", "lead", "whole turns"}
    assert board["rows"]["rolling"]["rules"] == {"value": 1.0, "n": 1}
    assert board["rows"]["window"]["rules"] == {"value": 0.0, "n": 1}
    assert board["rows"]["rolling"]["or recalled"] == {"value": 1.0, "n": 2}
    assert SAID[0] in (contexts / "beam-1.md").read_text()
    assert (contexts / "lost.txt").exists()


def test_a_folder_without_chats_is_refused(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("--beam", str(tmp_path))

    assert ran.exit_code != 0
    assert "no chat.json" in ran.stderr
