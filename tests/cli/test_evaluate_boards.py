"""The boards of `turnmill evaluate`, on tiny conversations made up for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compaction_kit import build_random_session, run_conformance

from tests.cli.commands import Ran
from turnmill_cli.conversations import BadInput
from turnmill_cli.evaluate.boards.compint import constraints, planted
from turnmill_cli.evaluate.boards.kit import Pipeline, kit_board
from turnmill_cli.evaluate.boards.squeezed import SqueezedSession
from turnmill_cli.evaluate.boards.task import edited
from turnmill_cli.evaluate.boards.telephone import telephone_board
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.survival import load
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import CountedOnce, counter_for

RULE = "Never book a hotel without asking me first."

TURNS: list[dict[str, Any]] = [
    {
        "role": "assistant" if at % 2 else "user",
        "content": f"On day {at} ticket TKT-{at:04} was closed in Oslo for ${at}.50.",
    }
    for at in range(40)
]


def metered() -> MeteredSummarizer:
    return MeteredSummarizer(ExtractiveSummarizer(), CountedOnce(counter_for("o200k_base")), 0.1)


def mean(cell: object) -> float:
    assert isinstance(cell, Mean)
    assert cell.value is not None
    return cell.value


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """One session of an agent: a request, an edit, much talk, and an order it needs again."""
    path = tmp_path / "talks.jsonl"
    asked = {"role": "user", "content": "Please rename the parser of orders, #W1234567 fails."}
    edit = call("edit_file", path="src/parser.py")
    edit["tool_calls"][0] |= {"id": "1", "type": "function"}
    done = {"role": "tool", "tool_call_id": "1", "content": "ok"}
    used = {"role": "assistant", "content": "Order #W1234567 works now."}
    path.write_text(json.dumps({"messages": [asked, edit, done, *TURNS, used]}))
    return path


@pytest.fixture
def run(turnmill: Callable[..., Ran]) -> Callable[..., Ran]:
    return partial(turnmill, "evaluate")


# --- a session compacted to a goal ----------------------------------------------------------------


def test_a_squeezed_session_keeps_to_tokens_and_to_characters() -> None:
    session = SqueezedSession(metered())
    session.extend(TURNS)

    assert session.squeeze(200)
    assert metered().counter.count(session.text()) <= 200
    session.extend(TURNS)
    assert session.squeeze_to_chars(600, 400)
    assert len(session.text()) <= 600


def test_a_squeezed_session_leaves_no_turn_as_it_was() -> None:
    session = SqueezedSession(metered())
    session.extend(TURNS)

    session.squeeze(200)

    assert session.watermark == len(TURNS)


# --- compaction-conformance-kit -------------------------------------------------------------------


def test_the_kit_is_played_with_our_rounds_beside_its_references() -> None:
    (board,) = kit_board((0.3,), metered(), seeds=(1,))

    rows = {row[0]: dict(zip(board.columns[1:], row[1:], strict=True)) for row in board.rows}

    assert list(rows)[:4] == ["rolling", "window", "head+tail", "lead"]
    assert all(mean(row["fits"]) == 1 for row in rows.values())
    assert mean(rows["kit: semantic-checklist"]["round 5"]) == 1
    assert mean(rows["rolling"]["round 1"]) > mean(rows["window"]["round 1"])


def test_a_later_round_compacts_the_same_session_again() -> None:
    session, canaries = build_random_session(1)
    pipeline = Pipeline(metered())

    ran = run_conformance(session, pipeline, rounds=3, canaries=canaries, budget_fraction=0.3)

    assert all(found.within_budget for found in ran.rounds)
    assert pipeline.compactions == 3


# --- COMPINT --------------------------------------------------------------------------------------


@pytest.fixture
def compint(tmp_path: Path) -> Path:
    path = tmp_path / "sssc.py"
    path.write_text(f'SSSCS = [{{"id": 1, "sssc": {RULE!r}}}]\nraise SystemExit\n')
    return path


def test_planted_rules_are_looked_for_word_for_word(
    run: Callable[..., Ran], talks: Path, compint: Path
) -> None:
    ran = run(str(talks), "--board=compint", f"--compint={compint}", "--budget=0.3", "--json")

    (board,) = ran.json
    assert board["rows"]["rolling"] == {
        f"30% {depth}": {"value": 1.0, "n": 1} for depth in ("early", "middle", "late")
    }
    assert board["rows"]["window"]["30% early"]["value"] == 0


def test_another_file_is_not_taken_for_compints_rules(tmp_path: Path) -> None:
    path = tmp_path / "other.py"
    path.write_text("OTHER = []\n")

    with pytest.raises(BadInput, match=r"sssc\.py"):
        constraints(path)


def test_a_rule_is_not_planted_between_a_call_and_its_result() -> None:
    messages = [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"role": "tool"}]

    found = planted(messages, RULE, 0.75)

    assert [message["role"] for message in found] == ["user", "user", "assistant", "tool", "tool"]


# --- agents' sessions -----------------------------------------------------------------------------


def call(name: str, /, **arguments: str) -> dict[str, Any]:
    made = {"function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (call("str_replace_editor", command="str_replace", path="/a/b.py"), ["/a/b.py"]),
        (call("str_replace_editor", command="view", path="/a/b.py"), []),
        (call("write_file", file_path="notes.md"), ["notes.md"]),
        (
            call("bash", command="sed -i 's/a/b/' src/x.py && echo hi > out.txt"),
            ["src/x.py", "out.txt"],
        ),
        (call("bash", command="python x.py 2>&1"), []),
        (call("get_user", name="Ann"), []),
    ],
)
def test_edited_files_are_those_that_a_call_writes(
    message: dict[str, Any], paths: list[str]
) -> None:
    assert list(edited([message])) == paths


def test_the_board_of_tasks_counts_the_requests_words_and_the_edited_paths(
    run: Callable[..., Ran], talks: Path, tmp_path: Path
) -> None:
    contexts = tmp_path / "contexts"

    ran = run(
        str(talks), "--board", "task", "--max-tokens", "1024", "--contexts", str(contexts), "--json"
    )

    (board,) = ran.json
    assert board["rows"]["head+tail"]["request"] == {"value": 1.0, "n": 1}
    assert board["rows"]["rolling"]["edited files"]["n"] == 1
    assert (contexts / "talks-1.md").exists()


# --- the telephone game ---------------------------------------------------------------------------


def test_the_telephone_game_is_played_through_more_and_more_compactions(talks: Path) -> None:
    board = telephone_board(load(talks, values="tau"), 0.4, metered(), rounds=(1, 5))

    rows = {row[0]: row[1:] for row in board.rows}

    assert rows["window FUR"][0] is rows["window FUR"][1]
    assert all(isinstance(each, Mean) and each.n for each in rows["rolling FUR"])
    assert board.caption.startswith("compactions there were, mean: 1, ")


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_can_be_printed_as_markdown(run: Callable[..., Ran], talks: Path) -> None:
    ran = run(str(talks), "--board", "task", "--max-tokens", "1024", "--markdown")

    lines = ran.stdout.splitlines()
    assert lines[2] == "|  | request | whole requests | edited files |"
    assert lines[3] == "|---|--:|--:|--:|"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--board", "beams"), "no board 'beams'"),
        (("--board", "beam"), "--beam FOLDER"),
        (("--board", "task"), "at least one file"),
        ((), "at least one file"),
    ],
)
def test_what_a_board_needs_is_said(
    run: Callable[..., Ran], words: tuple[str, ...], told: str
) -> None:
    ran = run(*words)

    assert ran.exit_code != 0
    assert told in ran.stderr


def test_a_board_of_rules_needs_the_rules(run: Callable[..., Ran], talks: Path) -> None:
    ran = run(str(talks), "--board", "compint")

    assert "--compint FILE" in ran.stderr
