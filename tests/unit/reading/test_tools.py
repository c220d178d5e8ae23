"""Tools of all kinds: queries, code that is run, browsers, and answers that only repeat."""

from __future__ import annotations

import pytest

from tests.unit.reading.test_work import step, told
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.tokens import counter_for


@pytest.mark.parametrize(
    ("name", "arguments", "role"),
    [
        ("run_sql", {"query": "SELECT depot,\n count(*)\nFROM trips\nGROUP BY 1"}, Role.LOOK),
        ("run_sql", {"query": "-- by depot\nwith t as (select 1) select * from t"}, Role.LOOK),
        ("ask_db", {"sql": "EXPLAIN ANALYZE SELECT * FROM trips"}, Role.LOOK),
        ("run_sql", {"query": "UPDATE trips SET late = true\nWHERE minutes > 90"}, Role.CHANGE),
        ("run_sql", {"query": "with old as (select 1)\ndelete from trips"}, Role.CHANGE),
        ("run_sql", {"sql": "CREATE TABLE late AS SELECT * FROM trips"}, Role.CHANGE),
        ("run_python", {"code": "import pandas as pd\nprint(pd.read_csv('a.csv').size)"}, Role.RUN),
        ("put", {"file_path": "/app/a.py", "text": "import os\nprint(os.name)"}, Role.CHANGE),
    ],
)
def test_a_query_looks_and_code_runs_unless_it_is_written_to_a_file(
    name: str, arguments: dict[str, str], role: Role
) -> None:
    [action, *_] = told(read_units(step(1, name, "ok", **arguments)))

    assert action[0] is role


def test_of_code_that_is_run_what_it_does_is_told_not_what_it_imports() -> None:
    code = "import numpy as np\nfrom os import path\nrows = load()\nprint(rows.mean())\nplot(rows)"

    told_of = told(read_units(step(1, "run_python", "4.5", code=code)))

    assert told_of == [(Role.RUN, "code=rows = load() ⏎ print(rows.mean()) … (5 lines) → 4.5")]


def test_what_a_browser_clicked_is_told_by_what_its_reference_stood_for() -> None:
    page = (
        '- heading "Trains"\n- button "Only necessary" [ref=e11]\n- link "Tickets" [ref=e12]\n'
        "- radio 'Saver, 219,80 €' [checked] [ref=e61]"
    )
    looked = step(1, "snapshot", page)
    clicked = step(2, "click", "Clicked e11. Dialog closed.", ref="e11")
    unknown = step(3, "click", "Clicked e99. Filled: e30, e31.", ref="e99")
    chosen = step(4, "click", "Selected e61.", ref="e61")

    texts = [text for _, text in told(read_units([*looked, *clicked, *unknown, *chosen]))]

    assert not any("[ref=" in text for text in texts)
    assert "ref=button 'Only necessary' → Clicked it. Dialog closed." in texts
    assert "ref=? → Clicked it. Filled: e30, e31." in texts
    assert "ref=radio 'Saver, 219,80 €' → Selected it." in texts


def test_a_short_answer_is_told_without_what_only_repeats_its_call() -> None:
    answer = '{"book": "wb_7", "updated": "Fees!D2:D6", "cells": 5}'

    texts = [t for _, t in told(read_units(step(1, "write", answer, sheet="Fees", cells="D2:D6")))]

    assert "updated=Fees!D2:D6" not in texts
    assert {"book=wb_7", "cells=5"} <= {*texts}


def test_of_a_message_that_is_sent_no_line_is_taken_for_an_import_and_none_is_lost() -> None:
    body = "From Monday the gate is shut.\nUse the side door.\nBring the badge, number 4711."

    texts = [text for _, text in told(read_units(step(1, "send_mail", "sent", body=body)))]

    assert "From Monday the gate is shut." in texts[0]
    assert any("Bring the badge, number 4711." in text for text in texts)


def test_what_a_command_is_for_stands_before_it() -> None:
    command = "git commit -am 'Take turns'"
    answer = (
        "husky - pre-commit: lint-staged\n[main 1a2b3c4] Take turns\n 3 files changed\n x | 2 ++"
    )

    [(_, text), *_] = told(
        read_units(step(1, "Bash", answer, command=command, description="Commit the limiter"))
    )

    assert text.startswith("(Commit the limiter) git commit -am 'Take turns' → ")
    assert "[main 1a2b3c4] Take turns" in text


def test_an_output_of_nothing_but_marks_is_no_empty_output() -> None:
    [(_, text)] = told(read_units(step(1, "Bash", "." * 100, command="make stress")))

    assert text == f"make stress → {'.' * 24}"


def test_what_only_looks_like_a_reference_of_a_page_stays() -> None:
    moved = step(1, "move", "Moved knight to e5. Black may answer e4.", target="e5", piece="knight")
    page = step(2, "snapshot", '- button "Pay" [ref=e11]')
    paid = step(3, "click", "Clicked e11. Order e4711 placed at gate e22.", ref="e11")

    texts = " ".join(text for _, text in told(read_units([*moved, *page, *paid])))

    assert "target=e5" in texts
    assert "Black may answer e4." in texts
    assert "Clicked it. Order e4711 placed at gate e22." in texts


def test_silence_is_no_output_whatever_a_shell_says_of_itself() -> None:
    for silence in ("(Bash completed with no output)", "root@box:/app#", "\x1b[32m\x1b[0m"):
        [(_, text)] = told(read_units(step(1, "Bash", silence, command="make x")))

        assert text == "make x → no output"


def test_failures_of_different_things_are_not_told_as_one_for_their_purpose() -> None:
    records = []
    for at, (purpose, command) in enumerate(
        [("Run the unit tests", "npm test"), ("Run the upload", "docker push prod:1")]
    ):
        records += step(2 * at, "Bash", "Error: exit code 1", command=command, description=purpose)

    text = extract(records, budget_tokens=400, count=counter_for().count)

    assert "npm test" in text
    assert "docker push prod:1" in text
