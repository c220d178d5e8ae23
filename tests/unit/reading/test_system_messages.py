"""A system prompt that an agent pushes as a turn takes no room from what was said and done."""

from __future__ import annotations

from typing import Any

from turnmill_worker.compaction.ledger.stated_values import mentions
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.summarizers.extractive import extract
from turnmill_worker.tokens import counter_for

COUNT = counter_for("o200k_base").count
PROMPT = " ".join(
    f"In case {case}, call tool_{case} with --retries {case} and report to team{case}@example.com."
    for case in range(1, 31)
)
SAID = "I moved the release to 14 May because host build-7 lost /var/cache/pkg."


def conversation(system: str) -> list[tuple[int, dict[str, Any]]]:
    said = [{"role": "system", "content": system}, {"role": "user", "content": SAID}]
    return list(enumerate(said, 1))


def test_what_was_said_is_kept_before_a_system_prompt() -> None:
    text = extract(conversation(PROMPT), budget_tokens=40, count=COUNT)

    assert f"2 user: {SAID}" in text
    assert len(text) - len(SAID) < 100


def test_no_fact_is_taken_from_a_system_prompt() -> None:
    found = list(mentions(read_units(conversation(PROMPT))))

    assert found
    assert {mention.seq for mention in found} == {2}


def test_a_short_note_of_the_system_counts_as_before() -> None:
    note = "The account SVC-2210 was upgraded to the plan Team."

    assert note in extract(conversation(note), budget_tokens=60, count=COUNT)
    assert 1 in {mention.seq for mention in mentions(read_units(conversation(note)))}
