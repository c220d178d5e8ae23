"""Rules are found in what users say, word for word, and not in what they quote or ask for once."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import realdata
from tests.effort import assert_linear
from turnmill.rules.find import find_rules
from turnmill.rules.kinds import Kind

DATA = Path(__file__).parents[2] / "data"
STOP = frozenset(
    "a an the and or of to in on at for with is are be i my me you your it this that".split()  # noqa: SIM905
)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower())) - STOP


def test_the_rules_people_might_write_are_found_word_for_word() -> None:
    wanted = [row for row in rows("rules.jsonl") if row["rule"]]

    found = [
        any(row["rule"] in clause.text for clause in find_rules(row["text"])) for row in wanted
    ]

    assert len(wanted) > 250
    assert sum(found) / len(found) >= 0.95


def test_few_requests_and_remarks_are_taken_for_rules() -> None:
    others = [row for row in rows("rules.jsonl") if not row["rule"]]

    taken = sum(bool(find_rules(row["text"])) for row in others)

    assert len(others) > 200
    assert taken / len(others) <= 0.02


def test_most_rules_are_found_however_freely_they_are_worded() -> None:
    # Drawn at random from messages written before the patterns, found or not; the score is fitted
    # to them. Some take knowledge of the world ("I am after petite sizes") and stay missed.
    labelled = rows("rules_freely_worded.jsonl")
    wanted = [row for row in labelled if row["rule"]]
    others = [row for row in labelled if not row["rule"]]

    found = [
        any(row["rule"] in clause.text for clause in find_rules(row["text"])) for row in wanted
    ]
    taken = sum(bool(find_rules(row["text"])) for row in others)

    assert (len(wanted), len(others)) == (100, 80)
    assert sum(found) / len(found) >= 0.8
    assert taken / len(others) <= 0.02


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("dont touch anything in vendor/ thanks", "dont touch anything in vendor/ thanks"),
        ("i eat no pork. whats for dinner?", "i eat no pork."),
        ("I have a stutter, so give me time on calls.", None),
        ("No therapy talk, ok? Just listen.", "No therapy talk, ok?"),
    ],
)
def test_sloppy_and_led_up_to_rules_are_found_whole(text: str, rule: str | None) -> None:
    [clause, *_] = find_rules(text)

    assert clause.text == (rule or text)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR 2024-03-01 request must include a valid token",
        "# NOTE: callers must hold the lock",
        "My landlord says no pets are allowed.",
        "The temperature must not have been right.",
        "She can't eat nuts, so no cake for her.",
        "Nothing happens when I click on it.",
        "That is all I need.",
        "Stay strong and keep going!",
    ],
)
def test_what_is_told_logged_or_said_of_others_is_no_rule(text: str) -> None:
    assert find_rules(text) == []


@realdata.requires_data
@pytest.mark.slow
def test_labelled_rules_of_real_conversations_are_found_and_few_others() -> None:
    labels = [row for row in rows("rule_labels.jsonl") if row["family"] in realdata.names()]
    texts = {
        (family, session["session_id"]): session["messages"]
        for family in {row["family"] for row in labels}
        for session in realdata.sessions(family)
    }
    rules = found = others = taken = 0

    for row in labels:
        content = texts[row["family"], row["conversation"]][row["message"]]["content"]
        text = (
            content
            if isinstance(content, str)
            else "\n".join(part["text"] for part in content if part.get("type") == "text")
        )
        assert hashlib.sha256(text.encode()).hexdigest()[:12] == row["sha256"]
        clauses = find_rules(text)
        for start, end in row["rules"]:
            wanted = words(text[start:end])
            rules += 1
            found += any(len(wanted & words(c.text)) >= 0.8 * len(wanted) for c in clauses)
        others += row["label"] == "not"
        taken += row["label"] == "not" and bool(clauses)

    assert found / rules >= 0.95
    assert taken / others <= 0.02


@pytest.mark.parametrize(
    "text",
    [
        "The docs say:\n\n```\nAlways answer in German.\n```",
        "> Never email me again.\n\nWhat does he mean by that?",
        'She wrote "Always book aisle seats" in the note.',
        "<document>Never use tabs.</document> Summarize this.",
        'Clause 4 of theirs:\n\n"4. PAYMENT\n4.1 All prices are net.\n4.2 Never pay late."\n\nOk?',
        "The user demands that you always answer in German.",
        "Can you fix this email:\n\nDear team,\nalways cc Bob on invoices.\nBest, Ann",
        "def f():\n    # never call this twice\n    return 1",
    ],
)
def test_what_a_user_only_quotes_is_no_rule(text: str) -> None:
    assert find_rules(text) == []


def test_a_rule_with_a_date_is_not_cut_at_the_number_of_the_day() -> None:
    [rule] = find_rules("Die Frist für den Antrag endet am 15. April. Was fehlt noch?")

    assert rule.text == "Die Frist für den Antrag endet am 15. April."


def test_a_long_message_contributes_its_clause_not_itself() -> None:
    text = f"{'The parcel was late. ' * 50}Always answer in German. {'It rained. ' * 50}"

    [clause] = find_rules(text)

    assert clause.text == text[clause.start : clause.end] == "Always answer in German."
    assert clause.kind is Kind.FORMAT


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("HOUSE RULE: Shoes stay at the door.", "Shoes stay at the door."),
        ("- Seat preference: by the window if there is one", "by the window if there is one"),
        ("Regel: Der Code geht vor dem Mittag raus.", "Der Code geht vor dem Mittag raus."),
        ("Diet restrictions: nuts. Milk is fine.", "nuts. Milk is fine."),
        ("Hard constraint 2: Java 17 and nothing newer", "Java 17 and nothing newer"),
    ],
)
def test_what_a_user_calls_a_rule_is_one_whatever_it_says(text: str, rule: str) -> None:
    assert [clause.text for clause in find_rules(text)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "The rule: what was it again?",
        "That rule: I forgot it.",
        "Rule:",
        "No no. Never!",
        "The queue drains in batches, limited to 50 at once.",
        "The client retries with a delay, capped at ten seconds.",
        "The smaller one is Max, our first cat.",
        "Here's a short example of a timer, given the need to keep the page under 2 MB:",
        "However, to keep the page below 2 MB, this approach could be a start.",
        "Given the goal to keep the load under 90 ms, you could also consider a cache.",
    ],
)
def test_what_only_speaks_of_a_rule_or_describes_a_bound_is_none(text: str) -> None:
    assert find_rules(text) == []


def test_an_order_behind_a_colon_is_found_with_what_it_says_of_the_old() -> None:
    text = "The lock is new: never share 4417; the old code is dead. Bye."

    [clause] = find_rules(text)

    assert clause.text == "The lock is new: never share 4417; the old code is dead."


@pytest.mark.parametrize(
    "text",
    [
        "This is an important constraint: always search the web before you answer.",
        "Before answering, always search the web.",
        "Never go near the nut aisle.",
    ],
)
def test_no_score_makes_little_of_what_is_said_to_hold_always(text: str) -> None:
    assert find_rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "My son is allergic to eggs.",
        "I have type 2 diabetes.",
        "I've got high blood pressure.",
        "We are vegetarians.",
        "my partner is pregnant!",
        "My kid can't have gluten.",
        "I'm on blood thinners.",
    ],
)
def test_what_harms_when_it_is_forgotten_is_found(text: str) -> None:
    assert find_rules(text)


HOSTILE = (
    "never ",
    "don't ",
    "- always do\n",
    "> > ",
    "<a>",
    "prefer, ",
    "?",
    "…",
    "好，",
    ", wie",
)


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_text_costs_in_proportion_to_its_length(part: str) -> None:
    assert_linear(lambda size: find_rules(part * size), size=4_000)
