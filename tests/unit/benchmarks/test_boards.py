"""The boards and the measures of texts, on tiny conversations made up for them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.boards.beam import beam_board, beam_chats
from benchmarks.boards.compint import compint_board, constraints
from benchmarks.boards.planted_facts import KINDS, PLANTED, plant, probe
from benchmarks.boards.squeezed import SqueezedSession
from benchmarks.boards.task import task_board
from benchmarks.boards.telephone import telephone_board
from benchmarks.survival import (
    METHODS,
    OverBudget,
    chat_means,
    data_set,
    kept_by_seq,
    method,
    portions,
    score_question,
    survival,
)
from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.measuring import MeteredSummarizer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

COUNTER = CountedOnce(counter_for("o200k_base"))
RULE = "Never book a hotel without asking me first."
TURNS: list[dict[str, Any]] = [
    {
        "role": "assistant" if at % 2 else "user",
        "content": f"On day {at} ticket TKT-{at:04} was closed in Oslo for ${at}.50.",
    }
    for at in range(40)
]


def metered(ledger: float = 0.1) -> MeteredSummarizer:
    return MeteredSummarizer(ExtractiveSummarizer(), COUNTER, ledger)


def call(name: str, /, **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": "1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """One session of an agent: a request, an edit, much talk, and an order it needs again."""
    path = tmp_path / "talks.jsonl"
    asked = {"role": "user", "content": "Please rename the parser of orders, #W1234567 fails."}
    done = {"role": "tool", "tool_call_id": "1", "content": "ok"}
    used = {"role": "assistant", "content": "Order #W1234567 works now."}
    edit = call("edit_file", path="src/parser.py")
    path.write_text(json.dumps({"messages": [asked, edit, done, *TURNS, used]}))
    return path


# --- texts ----------------------------------------------------------------------------------------


def test_evidence_counts_only_where_it_was_said() -> None:
    texts, summary = (
        ["Anna adopted two dogs in Paris", "Nice"],
        "0 x: Anna adopted dogs\n1 x: Paris",
    )
    means = chat_means()

    question = {"answer": "Paris", "evidence": [0]}
    score_question(question, texts, kept_by_seq(summary), means, summary=summary)

    found = {name: mean.value for name, mean in means.items()}
    assert found == {"ECR": 3 / 5, "EV": 0.0, "AER": 0.0, "any": 1.0}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("ledger", [0.0, 0.2])
def test_no_method_exceeds_its_budget(name: str, ledger: float) -> None:
    records = list(enumerate(TURNS, 1))
    parts = portions(records, 4, COUNTER.count)
    assert [record for part in parts for record in part] == records

    for budget in (0, 7, 60, 300, 5_000):
        assert COUNTER.count(method(name, metered(ledger))(parts, budget)) <= budget


def test_a_text_over_its_budget_is_an_error_not_a_score(talks: Path) -> None:
    data = data_set(talks, "tau")

    with pytest.raises(OverBudget, match="exceed the budget of"):
        survival(data, lambda _parts, _budget: "many words " * 500, 0.2, COUNTER.count)


# --- a session compacted to a goal ----------------------------------------------------------------


def test_a_squeezed_session_keeps_to_tokens_and_characters_and_leaves_no_turn_as_it_was() -> None:
    session = SqueezedSession(metered())
    session.extend(TURNS)

    assert session.squeeze(200)
    assert session.watermark == len(TURNS)
    assert COUNTER.count(session.text()) <= 200
    session.extend(TURNS)
    assert session.squeeze_to_chars(600, 400)
    assert len(session.text()) <= 600


# --- boards ---------------------------------------------------------------------------------------


def test_planted_rules_are_looked_for_word_for_word(tmp_path: Path, talks: Path) -> None:
    rules = tmp_path / "sssc.py"
    rules.write_text(f'SSSCS = [{{"id": 1, "sssc": {RULE!r}}}]\nraise SystemExit\n')

    board = compint_board(data_set(talks), constraints(rules), (0.3,), metered())

    rows = {row[0]: row[1:] for row in board.rows}
    assert rows["rolling"] == ("1.0", "1.0", "1.0")
    assert rows["window"][0] == ".00"


def test_the_board_of_tasks_counts_the_requests_words_and_writes_contexts(
    talks: Path, tmp_path: Path
) -> None:
    board = task_board(data_set(talks), 1024, metered(), tmp_path)

    assert dict(zip(board.columns, board.rows[2], strict=True))["request"] == "1.0"
    assert board.caption == "n: 1 sessions, 1 edited files"
    assert (tmp_path / "talks-1.md").exists()


def test_the_telephone_game_is_played_through_more_and_more_compactions(talks: Path) -> None:
    board = telephone_board(data_set(talks, "tau"), 0.4, metered(), rounds=(1, 5))

    rows = {row[0]: row[1:] for row in board.rows}
    assert rows["window FUR"][0] == rows["window FUR"][1]
    assert board.caption.startswith("compactions there were, mean: 1, ")


# --- BEAM -----------------------------------------------------------------------------------------

SAID = [
    "Always give dates as day-month-year when I ask about deadlines.",
    "Our dashboard API answers in 400ms on average today.",
    "After more caching the dashboard API answers in 250ms on average.",
    "The first sprint ends on March 29.",
]
QUESTIONS = {
    "instruction_following": [{"question": "When is it due?", "instruction_being_tested": SAID[0]}],
    "information_extraction": [
        {"question": "When does my sprint end?", "answer": "On March 29", "source_chat_ids": [6]}
    ],
    "knowledge_update": [
        {
            "question": "What is the average answer time of the dashboard API?",
            "answer": "Around 250ms",
            "potential_confusion": "The original 400ms instead of the newer 250ms",
            "source_chat_ids": {"original_info": [2], "updated_info": [4]},
        }
    ],
}


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    """A checkout with one chat: four things said, then much else."""
    folder = tmp_path / "BEAM" / "chats" / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    said = [*SAID, *(f"Tell me about town {at}, street by street." for at in range(40))]
    turns = []
    for at, text in enumerate(said):
        reply = " ".join(f"Street {at}-{n} is quiet and has trees." for n in range(20))
        turns.append({"id": str(2 * at), "role": "user", "content": text})
        turns.append({"id": str(2 * at + 1), "role": "assistant", "content": reply})
    (folder / "chat.json").write_text(json.dumps([{"turns": [turns]}]))
    asked = folder / "probing_questions" / "probing_questions.json"
    asked.write_text(json.dumps(QUESTIONS))
    return tmp_path / "BEAM"


def test_the_board_of_beam_shows_the_pipeline_beside_baselines(beam: Path, tmp_path: Path) -> None:
    board = beam_board(beam_chats(beam), Policy(max_tokens=1024), metered(), tmp_path)

    rows = {row[0]: dict(zip(board.columns[1:], row[1:], strict=True)) for row in board.rows}
    assert list(rows) == ["rolling", "window", "head+tail", "lead", "whole turns"]
    assert (rows["rolling"]["rules"], rows["window"]["rules"]) == ("1.0", ".00")
    assert SAID[0] in (tmp_path / "beam-1.md").read_text()


# --- planted facts --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_planted_fact_is_unique_and_none_tears_a_call_from_its_result(kind: str) -> None:
    host = [TURNS[0], call("look"), {"role": "tool", "tool_call_id": "1", "content": "none"}] * 20

    said, facts = plant(kind, list(enumerate(host)), COUNTER.count)

    assert len({fact.value for fact in facts}) == len({fact.topic for fact in facts}) == PLANTED
    assert all(fact.value in said[fact.seq - 1][1]["content"] for fact in facts)
    assert all(
        (before[1].get("tool_calls") is not None) == (after[1]["role"] == "tool")
        for before, after in pairwise(said)
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("depot limit was 2017 kg\n{t}: limit 5003 kg", 1.0),
        ("{t}: limit 5003 kg\n{t}: limit 2017 kg", 0.0),
        ("{t}: limit 5003 kg\n{t}: limit 2017 kg (until turn 40)", 1.0),
        ("{t}: limit 2017 kg", 0.0),
    ],
)
def test_an_update_survives_where_nothing_later_states_the_old_value(
    text: str, kept: float
) -> None:
    said = text.format(t="northern depot")

    found = probe(list(enumerate(TURNS)), lambda *_: said, 1.0, COUNTER.count, kinds=["update"])

    assert found.associated["update"].total == kept
