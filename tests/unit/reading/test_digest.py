"""A digest says the best of what it read in any budget, and the score tells what was lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, conversations
from turnmill_worker import reading
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.known import NOTHING_KNOWN, Known
from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.readings import Readings
from turnmill_worker.reading.said import Said
from turnmill_worker.reading.score import stale
from turnmill_worker.tokens import counter_for

# A digest says the best of what it read in any budget, and what it keeps can be stored and cut.

COUNT = counter_for().count


def read(*turns: Any, first: int = 1) -> list[Reading]:
    readings = Readings(COUNT)
    return [each for seq, own in enumerate(turns, first) for each in readings.of_turn(seq, own)]


def digest(*turns: Any, known: Known = NOTHING_KNOWN, first: int = 1, **more: Any) -> Digest:
    through = first + len(turns) - 1
    return Digest(known, read(*turns, first=first), COUNT, through=through, **more)


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def crate(number: int) -> list[dict[str, Any]]:
    return user(f"Crate C-{number * 77} of Anna{number} weighs {number * 13} kilos.")


def todo(done: int) -> list[dict[str, Any]]:
    todos = [
        {"content": f"Mend pier {at}", "status": "done" if at <= done else "open"}
        for at in range(1, 6)
    ]
    function = {"name": "write_todos", "arguments": json.dumps({"todos": todos})}
    call = {"id": f"t{done}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"t{done}", "content": "ok"},
    ]


def looked(at: int, path: str, text: str) -> list[dict[str, Any]]:
    """A call, and the numbered lines that it printed."""
    name = "read_file" if at % 2 else "bash"
    arguments = {"path": path} if at % 2 else {"command": f"cat -n {path}"}
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": path, "type": "function", "function": function}
    printed = "\n".join(f"{at:6}\t{line}" for at, line in enumerate(text.splitlines()[:200], 1))
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": path, "content": printed},
    ]


CRATES = [crate(number) for number in range(1, 31)]


# --- texts ---


@pytest.mark.parametrize("budget", [400, 1500])
def test_lines_of_a_file_are_told_with_the_call_that_names_it(budget: int) -> None:
    files = sorted(Path(reading.__file__).parent.glob("*.py"))
    turns = [looked(at, file.name, file.read_text()) for at, file in enumerate(files, 1)]

    known, told = NOTHING_KNOWN, 0
    for seq, turn in enumerate(turns, 1):
        found = digest(turn, known=known, first=seq)
        known, text = found.after(budget), found.text(budget)
        for of in re.findall(r"^(\d+) tool: ", text, re.MULTILINE):
            told += 1
            assert f"{files[int(of) - 1].name})" in text
    assert told


@settings(deadline=None, max_examples=40)
@given(conversations(20, least=2), st.integers(1, 600), st.integers(0, 12))
def test_no_text_ever_takes_more_than_its_budget(
    said: list[GivenTurn], budget: int, before: int
) -> None:
    turns = [turn.messages for turn in said]
    earlier = digest(*turns[:before])
    later = digest(*turns[before:], known=earlier.after(budget), first=before + 1)

    assert COUNT(later.text(budget)) <= budget
    assert COUNT(later.beside("The agent looked at the logs.", budget)) <= budget
    assert COUNT(later.earlier(budget)) <= budget


def test_of_a_list_written_again_and_again_the_newest_stands_whole_and_no_other() -> None:
    text = digest(*map(todo, range(4))).text(400)

    assert text.startswith("4 write_todos: Mend pier 1 = done; ")
    assert text.count("Mend pier 1") == 1
    assert "Mend pier 4 = open" in text


def test_what_stands_elsewhere_is_not_said_again() -> None:
    rule = "Never ship on Sundays."
    turns = [user(f"Ship crate C-7 to Bergen. {rule}"), *CRATES]

    text = digest(*turns, stated=[rule]).text(2_000)
    beside = digest(*turns, stated_in=[1]).text(2_000)

    assert rule not in text
    assert "to Bergen" in text
    assert "to Bergen" not in beside


def test_a_sentence_that_no_longer_holds_says_so() -> None:
    older = "Keep the bundle under 200 KB."
    said = Said()
    turns = [user(older), user("Make that 300 KB instead of 200 KB.")]
    for seq, own in enumerate(turns, 1):
        said.hear(seq, read(own, first=seq), own)

    text = digest(*turns, said=said).text(200)

    [told] = [line for line in text.split("\n") if older in line]
    assert re.search(r"\((?:changed in turn|until) 2\)", told)


# --- what is kept ---


def test_what_is_known_is_stored_as_json_and_leads_to_the_same_text() -> None:
    known = digest(*CRATES, *map(todo, range(3))).after(300)

    again = Known.restored(json.loads(json.dumps(known.stored())))

    assert json.dumps(again.stored()) == json.dumps(known.stored())
    for budget in (100, 400):
        texts = {digest(crate(99), known=each, first=40).text(budget) for each in (known, again)}
        assert len(texts) == 1


@pytest.mark.parametrize("watermark", [0, 9, 30])
def test_nothing_that_is_known_up_to_a_turn_came_after_it(watermark: int) -> None:
    known = digest(*CRATES, *map(todo, range(3))).after(300)

    cut = Known.restored(json.loads(json.dumps(known.stored()))).up_to(watermark)

    assert all(each.seq <= watermark for each in cut.readings)
    told = json.dumps(cut.stored(), ensure_ascii=False)
    later = [n for n in range(1, 31) if n > watermark and f"C-{n * 77} " in told]
    assert later == []
    assert "Mend pier" not in digest(crate(99), known=cut, first=40).text(400)


def name(number: int) -> str:
    """A name that no other number has."""
    return "X" + "".join("abcdefghij"[int(digit)] for digit in str(number))


def sailing(number: int) -> list[dict[str, Any]]:
    return user(f"Dear {name(number)}, {name(number * 7)} sails to {name(number * 31)} tonight.")


def test_what_is_kept_is_bounded_by_the_budget_and_not_by_the_session() -> None:
    known, sizes = NOTHING_KNOWN, []
    for start in range(0, 4_000, 200):
        own = map(sailing, range(start, start + 200))
        known = digest(*own, known=known, first=start + 1).after(100)
        sizes.append(len(json.dumps(known.stored())))

    assert sizes[-1] < 1.2 * sizes[len(sizes) // 2]


def test_facts_outlive_compactions_that_have_room_for_them() -> None:
    known = digest(user("My customer number is XQ-7731-KAPPA."), *CRATES[:5]).after(300)
    for start in range(10, 60, 10):
        talk = [user("All the piers are clear now, I think.") for _ in range(10)]
        known = digest(*talk, known=known, first=start).after(300)

    assert "XQ-7731-KAPPA" in digest(crate(1), known=known, first=99).text(300)


def test_nothing_depends_on_the_order_of_a_set() -> None:
    code = (
        "import json; from tests.unit.reading.test_digest import *;"
        "d = digest(*CRATES, *map(todo, range(3)));"
        "print(d.text(200), d.beside('Anna3 has 39 kilos.', 90), json.dumps(d.after(200).stored()))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }

    assert len(told) == 1


# The score says what share of the worth can still be read, and which text states what is past.

OLDER, NEWER = "Ship the crates to pier 14 by Friday.", "Ship the crates to pier 29 instead."


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The crates go to pier 14 by Friday; ship them.", 1),
        ("1 user: Ship the crates to pier 14 by Friday. (changed in turn 9)", 0),
        ("Ship the crates to pier 29, not pier 14.", 0),
        ("Pier 14 is closed.", 0),
        ("", 0),
    ],
)
def test_what_a_text_states_although_it_was_changed_is_counted(text: str, wrong: int) -> None:
    assert stale(text, {OLDER: NEWER}) == wrong
    assert stale(text, {}) == 0
