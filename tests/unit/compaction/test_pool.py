"""The pool: every summary is chosen from original passages, however many came before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from turnmill_worker.compaction.pool.candidates import Candidates
from turnmill_worker.compaction.pool.factors import routine_factors
from turnmill_worker.compaction.pool.pooled import PooledLine, pooled_up_to, units_of
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.store.kept_beside import decoded, encoded

Record = tuple[int, dict[str, object]]

POOL_TOKENS = 400
BUDGET = 60


def count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def talk(turns: int) -> list[Record]:
    """Small talk, with a fact of its own in every tenth turn."""
    return [
        (
            seq,
            {
                "role": "user" if seq % 2 else "assistant",
                "content": f"Ship order #W{seq:07d} to Oslo."
                if seq % 10 == 1
                else "That is good to hear, thank you so much for telling me about it.",
            },
        )
        for seq in range(1, turns + 1)
    ]


def compacted(records: Sequence[Record], rounds: int) -> tuple[str, tuple[PooledLine, ...]]:
    """The summary and the pool after so many compactions of equal parts."""
    text = ""
    pool: tuple[PooledLine, ...] = ()
    size = len(records) // rounds
    for at in range(rounds):
        newer = read_units(records[at * size : (at + 1) * size])
        candidates = Candidates(newer, pool, previous=text, pool_tokens=POOL_TOKENS)
        text = candidates.text(BUDGET, count)
        pool = candidates.pool(BUDGET, count)
    return text, pool


def orders(text: str) -> set[str]:
    return set(re.findall(r"#W\d{7}", text))


def test_a_hundred_compactions_keep_as_much_as_one() -> None:
    once, _ = compacted(talk(200), 1)
    often, _ = compacted(talk(200), 100)

    assert count(often) <= BUDGET
    assert len(orders(often)) >= len(orders(once)) > 3


def test_the_pool_stays_bounded_however_long_the_session() -> None:
    _, shorter = compacted(talk(1000), 10)
    _, longer = compacted(talk(4000), 40)

    def size(pool: Sequence[PooledLine]) -> int:
        return sum(count(unit.text) for unit in units_of(pool).units)

    assert size(longer) <= 1.1 * size(shorter)
    assert size(longer) <= 1.5 * POOL_TOKENS


def test_passages_are_kept_as_they_were_said() -> None:
    said = "I am really not going to take the 7:30 am train, since it is always late."
    records: list[Record] = [(3, {"role": "user", "name": "Ann", "content": said})]

    pool = Candidates(read_units(records), pool_tokens=POOL_TOKENS).pool(BUDGET, count)

    assert [unit.text for unit in units_of(pool).units] == [said]
    assert (pool[0].seq, pool[0].name) == (3, "Ann")


def test_what_one_summary_left_out_a_later_one_can_take_up() -> None:
    first = Candidates(read_units(talk(60)), pool_tokens=POOL_TOKENS)
    before = first.text(12, count)
    later = Candidates(read_units([]), first.pool(12, count), previous=before)

    assert orders(later.text(BUDGET, count)) > orders(before)


def test_a_summary_without_a_pool_is_what_there_is() -> None:
    """A session from before there was a pool."""
    later = Candidates(read_units([]), previous="1 user: ship order #W0000001 to Oslo")

    assert orders(later.text(BUDGET, count)) == {"#W0000001"}


def test_facts_and_pool_come_back_from_redis_as_they_went() -> None:
    records: list[Record] = [
        *talk(12),
        (13, {"role": "assistant", "content": None, "tool_calls": [_call("look_up", '{"a": 1}')]}),
        (14, {"role": "tool", "tool_call_id": "c", "content": '{"price": 12.5, "x": {"y": "z"}}'}),
        (15, {"role": "assistant", "content": None, "tool_calls": [_call("run", '{"cmd": "ls"}')]}),
    ]
    pool = Candidates(read_units(records), pool_tokens=POOL_TOKENS).pool(BUDGET, count)

    assert decoded(encoded((), pool)) == ((), pool)
    assert pooled_up_to(pool, 12) == tuple(line for line in pool if (line.seq or 0) <= 12)


def _call(name: str, arguments: str) -> dict[str, object]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("body", [b"17", b'{"pool": [{"seq": 1}]}', b'"x"', b'{"facts": 3}'])
def test_what_cannot_be_read_begins_anew(body: bytes) -> None:
    assert decoded(body) == ((), ())


def test_facts_written_before_there_was_a_pool_are_read() -> None:
    body = b'[{"kind": "id", "text": "#W1", "label": "order", "seq": 1, "last_seq": 1}]'

    facts, pool = decoded(body)

    assert [fact.text for fact in facts] == ["#W1"]
    assert pool == ()


def test_what_stands_beside_a_summary_is_not_said_twice() -> None:
    records: list[Record] = [
        (1, {"role": "user", "content": "Never email me. My order is #W0000001, in blue."}),
        (2, {"role": "assistant", "content": "Never email me."}),
        (3, {"role": "user", "content": "Fix the parser, please."}),
    ]
    candidates = Candidates(read_units(records))

    text = candidates.text(
        BUDGET, count, without_said_in=frozenset({3}), stated=[(1, "Never  email me")]
    )

    assert text == "1 user: My order is #W0000001, in blue.\n2 assistant: Never email me."


def said(*texts: str) -> Candidates:
    return Candidates(
        read_units([(seq, {"role": "user", "content": text}) for seq, text in enumerate(texts, 1)])
    )


def test_a_sentence_of_which_only_value_is_past_is_left_out() -> None:
    told = said("The kitchen budget is $3,000.", "The kitchen budget is now $4,500.")

    text = told.text(200, count)

    assert "$3,000" not in text
    assert "$4,500" in text


def test_a_sentence_that_says_more_than_what_is_past_stays_and_is_marked() -> None:
    told = said(
        "The kitchen budget is $3,000, and Rosa Lind pays it.", "The kitchen budget is now $4,500."
    )

    assert "$3,000 (until 2), and Rosa Lind pays it." in told.text(200, count)


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("assistant", "I booked rooms for the team offsite at Lagos."),
        ("tool", '{"note": "The team offsite is at Lagos."}'),
    ],
)
def test_who_else_says_what_is_past_is_not_repeated_as_if_it_held(role: str, content: str) -> None:
    records: list[Record] = [
        (1, {"role": "user", "content": "The team offsite is at Lagos."}),
        (2, {"role": role, "content": content}),
        (3, {"role": "user", "content": "The team offsite is now at Pune."}),
    ]

    text = Candidates(read_units(records)).text(200, count)

    assert text == "3 user: The team offsite is now at Pune."


def test_a_rule_that_stands_beside_is_not_said_again_under_its_label() -> None:
    told = said("HOUSE RULE: Shoes stay at the door.", "The bike is in the shed.")

    text = told.text(200, count, stated=[(1, "Shoes stay at the door.")])

    assert "Shoes" not in text
    assert "shed" in text


def test_what_is_said_again_and_again_word_for_word_counts_less_each_time() -> None:
    routine, insisted = "The nightly job ran without errors.", "Please water my three plants today."
    texts = [*[routine] * 4, *[insisted] * 2, *["Thank you!"] * 4]
    records = [(seq, {"role": "user", "content": text}) for seq, text in enumerate(texts, 1)]

    factors = list(routine_factors(read_units(records).units))

    assert factors == [*[0.5] * 4, *[1.0] * 2, *[1.0] * 4]


def test_what_replaced_something_stays_worth_more_in_the_pool() -> None:
    moved: Record = (2, {"role": "user", "content": "I moved the dentist to Thursday at noon."})
    first: Record = (1, {"role": "user", "content": "The dentist is on Monday."})

    def standing(*records: Record) -> float:
        pool = Candidates(read_units(records), pool_tokens=POOL_TOKENS).pool(12, count)
        return Candidates(read_units([]), pool).pool(12, count)[-1].groups[0].standings[0]

    assert standing(first, moved) == 2 * standing(moved)
