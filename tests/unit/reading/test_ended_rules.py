"""What a user laid down and took back later is past, wherever the later word was said."""

from __future__ import annotations

import pytest

from turnmill.contract.names import Seq
from turnmill.rules.kinds import Kind, Rule
from turnmill.rules.standing import Said, in_force
from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.units import Units
from turnmill_worker.old_reading.updates import Told

Message = dict[str, str]


def said(*texts: str) -> list[tuple[Seq, Message]]:
    return [(Seq(at), {"role": "user", "content": text}) for at, text in enumerate(texts, 1)]


def rules_of(messages: list[tuple[Seq, Message]]) -> tuple[Rule, ...]:
    return in_force((), [Said(seq, [message]) for seq, message in messages])


def past(units: Units, *rules: Rule) -> dict[str, int]:
    told = Told(units, in_force=rules)
    return {units.units[at].text: one.seq for at, newer in told.past.items() for one in newer}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I always want aisle seats.", "Actually, window seats from now on."),
        ("Always answer in German.", "From now on, answer in English."),
        ("Do not ever email me.", "You can email me again."),
    ],
)
def test_a_rule_that_a_later_one_ended_is_past(old: str, new: str) -> None:
    messages = said(old, "The trip to Rome was nice.", new)

    assert past(read_units(messages), *rules_of(messages)) == {old: 3}


def test_a_later_rule_ends_it_when_its_own_words_have_left_the_pool() -> None:
    window = Rule(seq=Seq(41), text="Actually, window seats from now on.", kind=Kind.PREFERENCE)

    assert past(read_units(said("I always want aisle seats.")), window) == {
        "I always want aisle seats.": 41
    }


def test_a_rule_that_was_said_twice_is_past_in_both_places() -> None:
    messages = said(
        "I always want aisle seats.",
        "The trip to Rome was nice.",
        "I always want aisle seats!",
        "Actually, window seats from now on.",
    )
    told = Told(read_units(messages), in_force=rules_of(messages))

    assert [at for at, newer in told.past.items() if newer[0].seq == 4] == [0, 2]


def test_a_rule_in_force_is_never_past() -> None:
    messages = said("I always want aisle seats.", "Actually, window seats from now on.")
    first = Rule(seq=Seq(1), text="I always want aisle seats.", kind=Kind.PREFERENCE)

    assert past(read_units(messages), first) == {}


def test_a_summary_does_not_state_what_the_user_took_back() -> None:
    messages = said(
        "I always want aisle seats. Anna turns 40 on May 3 in Lisbon.",
        "Actually, window seats from now on.",
    )
    rules = rules_of(messages)
    made = Candidates(read_units(messages), in_force=rules)

    text = made.text(60, len, stated=[(rule.seq, rule.text) for rule in rules])

    assert "aisle" not in text
    assert made.text(400, len, stated=[(rule.seq, rule.text) for rule in rules]).count("May 3") == 1
