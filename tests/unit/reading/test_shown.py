"""Past screens are told by what was new on them, and work that a user only shows not at all."""

from __future__ import annotations

from typing import Any

import pytest

from turnmill_worker.old_reading.messages import read_units

Record = tuple[int, dict[str, Any]]

SCREEN = 'Observation: look.\n[1]: "Home";\t[2]: <input> "Find";\t[3]: "Help";\t'


def screens(*shown: str, order: str = "Action: Click [4]") -> list[Record]:
    """The task, and an order for each screen that follows."""
    records: list[Record] = [(1, {"role": "user", "content": "Find the cheapest kayak."})]
    for seq, screen in enumerate(shown, 1):
        records += [
            (2 * seq, {"role": "assistant", "content": f"Thought: The list is at [4].\n{order}"}),
            (2 * seq + 1, {"role": "user", "content": f"{SCREEN}{screen}"}),
        ]
    return records


def test_a_number_of_a_screen_is_told_by_what_it_stood_for_and_a_past_screen_by_what_was_new() -> (
    None
):
    records = screens(
        '[4]: "Kayaks";\t[5]: "Boats";\t[6]: "Oars";', '[4]: "Sort";\t[5]: "Price, 480";\t[6]: ""'
    )

    found = read_units(records)

    texts = [unit.text for unit in found.units]
    assert "Click [4] → a screen of 6 parts" in texts
    assert 'Click "Kayaks" → new on the screen: "Sort", "Price, 480"' in texts
    assert 'Thought: The list is at "Kayaks".' in texts
    assert not any("[5]" in text or "Observation" in text for text in texts)


def test_sources_with_numbers_are_no_screen() -> None:
    numbers = "\n".join(f"[{at}] Got number 7{at}" for at in range(3, 9))

    found = read_units(screens("", numbers, order="Action: read [2]"))

    assert any("[2]: input" in unit.text for unit in found.units)
    assert any("[8] Got number 78" in unit.text for unit in found.units)


def demonstration(opens: str, closes: str, work: str) -> str:
    return f"Work as shown here.\n{opens}\n{work}\n{closes}\nFix the total in totals.py."


WORK = "ISSUE: shop.py rounds.\n```\nopen shop.py\n```\n31:x = 1\n```\nedit 31:31\n```\nSaved."


@pytest.mark.parametrize(
    ("opens", "closes"),
    [
        ("--- DEMONSTRATION ---", "--- END OF DEMONSTRATION ---"),
        ("===== START OF EXAMPLE =====", "===== END OF EXAMPLE ====="),
        ("<example>", "</example>"),
    ],
)
def test_work_that_a_user_only_shows_is_none_of_the_sessions(opens: str, closes: str) -> None:
    content = demonstration(opens, closes, WORK)

    said = " ".join(
        unit.text for unit in read_units([(1, {"role": "user", "content": content})]).units
    )

    assert "shop.py" not in said
    assert "[A demonstration of 9 lines stood here.]" in said
    assert "Work as shown here." in said
    assert "Fix the total in totals.py." in said


@pytest.mark.parametrize(
    "content",
    [
        demonstration("<example>", "</example>", 'Write "total: 3" under shop.py.'),
        demonstration("<example>", "", WORK),
        demonstration("<document>", "</document>", WORK),
    ],
)
def test_a_form_an_open_end_and_a_document_are_the_users(content: str) -> None:
    found = read_units([(1, {"role": "user", "content": content})])

    assert any("shop.py" in unit.text for unit in found.units)
