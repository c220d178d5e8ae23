"""The score falls when facts are lost, and says so in parts that can be looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.effort import assert_linear
from tests.properties.strategies import GivenTurn, conversations
from turnmill.contract.context import EMPTY, JsonMessage, PinnedTurn, Receipt
from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.legality import repair
from turnmill.contract.names import Seq
from turnmill.contract.quality_weights import QualityWeights
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.score import Quality, Scorer
from turnmill_worker.summarizers.extractive import extract

TOLERANCE = 0.02
"""A speaker's role is told once: without the line that told it, later ones read as plain text."""


def user(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def assistant(text: str) -> JsonMessage:
    return {"role": "assistant", "content": text}


def call(call_id: str, arguments: str) -> JsonMessage:
    function = {"name": "get_order", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str, content: str) -> JsonMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


TALK = [
    user("Hi, I am Yusuf Rossi and my zip code is 19122."),
    assistant("Thank you Yusuf, which order is this about?"),
    user("Cancel order #W2378156, but do not cancel order #W5442520."),
    call("c1", '{"order_id": "#W2378156"}'),
    result("c1", '{"order_id": "#W2378156", "status": "pending", "total": 46.66}'),
    assistant("The keyboard of order #W2378156 costs 46.66 and ships to Philadelphia."),
    user("Then exchange the thermostat 4983901480 for one that works with Google Home."),
]
TAIL = [user("Which payment method was used?"), assistant("Let me look that up.")]


def head_of(text: str) -> list[JsonMessage]:
    receipt = Receipt(by="window", first_seq=1, last_seq=7, turns=7, tokens=300)
    receipts = () if text else (receipt,)
    return render_head(
        EMPTY.model_copy(update={"summary": text, "watermark": 7, "receipts": receipts})
    )


def judged(text: str, *, head: Sequence[JsonMessage] | None = None, **changes: Any) -> Quality:
    """The quality of covering the talk with this text, or with this head."""
    covered = Records(changes.pop("covered", enumerate(TALK, 1)))
    given: dict[str, Any] = {"previous": [], "tail": TAIL, "kept_turns": 3, "wanted_turns": 3}
    given |= {"turns": 10, "compactions": 0, "weights": QualityWeights(), **changes}
    return Scorer(covered=covered, **given).score(head_of(text) if head is None else head)


def extracted(talk: Sequence[JsonMessage], budget: int) -> str:
    return extract(
        list(enumerate(talk, 1)), budget_tokens=budget, count=lambda text: len(text.split())
    )


WHOLE = extracted(TALK, 10_000)


# --- what it tells apart ----------------------------------------------------------------------


def test_text_kept_word_for_word_loses_nothing() -> None:
    quality = judged("", head=TALK)

    assert quality.score == pytest.approx(1.0)
    shares = {"facts", "relevance", "freshness", "session", "rules", "current", "readable"}
    assert set(quality.parts) == {*shares, "validity"}


def test_a_summary_of_everything_is_good_and_one_of_nothing_is_not() -> None:
    assert judged(WHOLE).score > 0.9
    for text in ("", "The conversation continued.", "They talked about orders and payments."):
        assert judged(text).score < 0.45


def test_a_summary_of_another_session_is_not_good_however_long_it_is() -> None:
    other = "\n".join(f"{n} user: Book flight HAT{n:03} to Paris for Ann Lee." for n in range(50))

    assert judged(other).score < 0.45


def test_more_words_do_not_raise_the_score() -> None:
    padded = WHOLE + "\nearlier: " + "Everybody was polite throughout this pleasant evening. " * 50

    assert judged(padded).score == judged(WHOLE).score


@pytest.mark.parametrize("fact", ["#W2378156", "19122", "46.66", "4983901480", "Philadelphia"])
def test_losing_a_named_fact_lowers_the_score(fact: str) -> None:
    assert judged(WHOLE.replace(fact, "it")).score < judged(WHOLE).score


def test_losing_what_the_user_said_costs_more_than_losing_what_only_a_result_said() -> None:
    talk = [user("My code is AB1234."), call("c1", "{}"), result("c1", '{"code": "XY9876"}')]
    covered = [(Seq(seq), message) for seq, message in enumerate(talk, 1)]

    without_users = judged("3 result get_order: code=XY9876", covered=covered)
    without_results = judged("1 user: My code is AB1234.", covered=covered)

    assert without_users.score < without_results.score


def test_losing_a_negation_lowers_the_score() -> None:
    inverted = WHOLE.replace("but do not cancel", "cancel")

    assert inverted != WHOLE
    assert judged(inverted).score < judged(WHOLE).score - 0.005


def test_identifiers_without_what_they_belong_to_are_worth_less() -> None:
    bare = "#W2378156\n#W5442520\n46.66\n19122\n4983901480"
    told = (
        "Yusuf Rossi, zip 19122: cancel #W2378156 (keyboard, 46.66), do not cancel order "
        "#W5442520. Exchange thermostat 4983901480."
    )

    assert judged(bare).score < judged(told).score - 0.1


def test_prose_is_read_as_well_as_extracted_lines() -> None:
    prose = (
        "Yusuf Rossi (zip code 19122) wants to cancel order #W2378156, which is pending and costs "
        "46.66, but does not want to cancel order #W5442520. He also wants to exchange the "
        "thermostat 4983901480 for one that works with Google Home. The keyboard ships to "
        "Philadelphia."
    )

    assert judged(prose).score > 0.7


def test_what_the_tail_repeats_is_hardly_at_stake() -> None:
    repeating = judged("", tail=[*TALK, *TAIL])

    assert repeating.score == pytest.approx(1.0)


def test_a_summary_counts_for_more_when_it_speaks_of_the_newest_turns() -> None:
    tail = [user("When will the thermostat be exchanged?")]
    lines = WHOLE.split("\n")
    about = [line for line in lines if "thermostat" in line]
    beside = [line for line in lines if "thermostat" not in line]

    assert about
    without = judged("\n".join(beside), tail=tail)
    assert without.parts["relevance"] < without.parts["facts"]
    assert judged("\n".join(about), tail=tail).parts["relevance"] > without.parts["relevance"]


# --- the older summary ------------------------------------------------------------------------


OLDER = "1 user: Ann Lee, customer number AL9001, lives in Hamburg."


def test_keeping_the_older_summary_does_not_make_up_for_the_turns_covered_now() -> None:
    both = judged(f"{OLDER}\n{WHOLE}", previous=head_of(OLDER))
    older_only = judged(f"{OLDER} ", previous=head_of(OLDER))
    newer_only = judged(WHOLE, previous=head_of(OLDER))

    assert both.score > 0.9
    assert older_only.score < 0.6
    assert newer_only.score < 0.6


def test_pinned_turns_raise_nothing() -> None:
    pin = PinnedTurn(seq=Seq(1), messages=(user("Order ZX777 goes to Oslo, order ZX778 to Rome."),))
    pinned = EMPTY.model_copy(update={"pins": (pin,)})

    boilerplate = judged(
        "", previous=render_head(pinned), head=[*head_of("Nothing."), *render_head(pinned)]
    )

    assert boilerplate.score < 0.45


# --- the other parts --------------------------------------------------------------------------


def test_fallen_pairs_make_a_compaction_worthless() -> None:
    torn = judged(WHOLE, covered=list(enumerate(TALK[:4], 1)), tail=[TALK[4], *TAIL])

    assert torn.parts["validity"] == 0.0
    assert torn.score == 0.0


def test_a_head_a_provider_would_refuse_is_worthless() -> None:
    assert judged(WHOLE, head=[*head_of(WHOLE), result("c9", "42")]).score == 0.0


def test_pairs_an_agent_pushed_torn_are_not_held_against_the_compaction() -> None:
    quality = judged(WHOLE, tail=[result("c9", "42"), call("c8", "{}"), *TAIL])

    assert quality.parts["validity"] == 1.0


def test_a_batch_that_is_still_open_is_valid() -> None:
    assert judged(WHOLE, tail=[*TAIL, call("c8", "{}")]).parts["validity"] == 1.0


@pytest.mark.parametrize(
    ("kept", "wanted", "freshness"), [(3, 3, 1.0), (9, 3, 1.0), (1, 4, 0.25), (0, 3, 0), (0, 0, 1)]
)
def test_freshness_is_the_share_of_wanted_turns_that_are_kept(
    kept: int, wanted: int, freshness: float
) -> None:
    assert judged(WHOLE, kept_turns=kept, wanted_turns=wanted).parts["freshness"] == freshness


@pytest.mark.parametrize(
    ("turns", "compactions", "session"), [(20, 1, 0.95), (4, 4, 0), (2, 9, 0), (0, 0, 1)]
)
def test_a_session_that_thrashes_scores_lower(turns: int, compactions: int, session: float) -> None:
    assert judged(WHOLE, turns=turns, compactions=compactions).parts["session"] == session


def test_only_the_ratios_of_the_weights_matter() -> None:
    once = judged("Nothing.", weights=QualityWeights(facts=1, relevance=2, freshness=0, session=1))
    more = judged("Nothing.", weights=QualityWeights(facts=3, relevance=6, freshness=0, session=3))

    assert once.score == pytest.approx(more.score)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"facts": -0.1}, "facts"),
        ({"relevance": float("nan")}, "relevance"),
        ({"session": float("inf")}, "session"),
        ({"facts": 0, "relevance": 0, "freshness": 0, "session": 0}, "above 0"),
        ({"length": 1}, "Extra inputs"),
    ],
)
def test_weights_that_cannot_weigh_are_refused(fields: Mapping[str, float], says: str) -> None:
    with pytest.raises(InvalidPolicy, match=says):
        QualityWeights(**fields)


# --- any conversation -------------------------------------------------------------------------

no_deadline = settings(deadline=None, max_examples=40)


def of_talk(said: Sequence[GivenTurn], text: str) -> Quality:
    """The quality of covering the first two thirds with this text."""
    cut = len(said) * 2 // 3
    return judged(
        text,
        covered=[(Seq(seq), m) for seq, turn in enumerate(said[:cut], 1) for m in turn.messages],
        tail=repair([message for turn in said[cut:] for message in turn.messages]),
    )


@no_deadline
@given(conversations(30), st.text(max_size=200) | st.sampled_from([WHOLE, ""]))
def test_the_score_and_its_parts_stay_within_0_and_1(said: list[GivenTurn], text: str) -> None:
    quality = of_talk(said, text)

    assert 0 <= quality.score <= 1
    assert all(0 <= part <= 1 for part in quality.parts.values())
    assert quality == of_talk(said, text)


@no_deadline
@given(conversations(30), st.data())
def test_deleting_lines_of_a_summary_never_raises_its_score(
    said: list[GivenTurn], data: st.DataObject
) -> None:
    lines = extracted([m for turn in said for m in turn.messages], 200).split("\n")
    left = [line for line in lines if data.draw(st.booleans())]

    whole, less = (of_talk(said, "\n".join(kept)) for kept in (lines, left))
    # What nobody can read is better left out.
    assume(less.parts["readable"] <= whole.parts["readable"])
    assert less.score <= whole.score + TOLERANCE


@no_deadline
@given(conversations(30))
def test_keeping_every_message_keeps_every_fact(said: list[GivenTurn]) -> None:
    covered = [m for turn in said for m in turn.messages]
    quality = judged("", covered=list(enumerate(covered, 1)), head=repair(covered), tail=[])

    assert quality.parts["facts"] == pytest.approx(1.0)
    assert quality.parts["relevance"] == pytest.approx(1.0)


# --- hostile input, and the same everywhere ---------------------------------------------------

GROWING: Mapping[str, Callable[[int], str]] = {
    "unbroken": lambda n: "x" * 40 * n,
    "separators": lambda n: "a.b/" * 10 * n,
    "one word": lambda n: "no " * 13 * n,
    "identifiers": lambda n: " ".join(f"W{k:06}" for k in range(5 * n)),
    "alike sentences": lambda n: " ".join(f"Do not send W{k % 97} to town {k}." for k in range(n)),
    "json": lambda n: str([{"id": k, "name": f"item {k}"} for k in range(n)]).replace("'", '"'),
}


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.slow
def test_time_grows_about_linearly(name: str) -> None:
    def judge(size: int) -> None:
        text = GROWING[name](size)
        judged(text, covered=[(Seq(1), user(text))], tail=[user(text)])

    assert_linear(judge, size=1_000)


_SCRIPT = """
from tests.unit.compaction.test_quality import TALK, WHOLE, judged
print(repr(judged(WHOLE[:300])))
"""


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(outputs) == 1
    assert b"score" in outputs.pop()


# --- prepared before the head is there ------------------------------------------------------------

PIN = PinnedTurn(seq=Seq(2), messages=(user("Never ship to Berlin, whatever anybody says."),))
BEFORE = EMPTY.model_copy(
    update={"summary": "1 user: Order #W1112223 goes to Rome.", "watermark": Seq(3), "pins": (PIN,)}
)


@pytest.mark.parametrize("pins", [(), (PIN,)])
@pytest.mark.parametrize("known", [[], list(PIN.messages), render_head(BEFORE), TAIL])
def test_what_was_known_of_the_head_does_not_change_its_score(
    pins: tuple[PinnedTurn, ...], known: list[JsonMessage]
) -> None:
    after = EMPTY.model_copy(update={"summary": "1 user: Order #W1112223.", "pins": pins})

    def scored(known: Sequence[JsonMessage]) -> Quality:
        return judged("", previous=render_head(BEFORE), head=render_head(after), known=known)

    assert scored(known) == scored(render_head(after))


def test_a_scorer_remembers_nothing_of_the_heads_before() -> None:
    scorer = Scorer(
        covered=Records((Seq(seq), message) for seq, message in enumerate(TALK, 1)),
        previous=render_head(BEFORE),
        tail=TAIL,
        kept_turns=3,
        wanted_turns=3,
        turns=10,
        compactions=0,
        weights=QualityWeights(),
    )
    heads = [head_of(WHOLE), render_head(BEFORE), head_of("Nothing."), head_of(WHOLE)]

    first, kept, nothing, again = map(scorer.score, heads)

    assert first == again
    assert first.score > nothing.score
    assert kept != nothing
