"""What caps the score, however much survives: lost rules, old values, what nobody can read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.effort import assert_linear, least_cpu_s
from turnmill.contract.context import EMPTY, JsonMessage
from turnmill.contract.names import Seq
from turnmill.contract.quality_weights import QualityWeights
from turnmill.contract.render import render_head
from turnmill.contract.rules import Rule
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.score import Quality, Scorer
from turnmill_worker.compaction.quality.trust import Trust
from turnmill_worker.summarizers.extractive import extract

RULE = Rule(seq=Seq(1), place=1, text="Never email me before noon.")
TALK = (
    ("user", "Our budget for the new kitchen is $3,000 and the oven should be white."),
    ("assistant", "A white oven with a glass door costs a third of that; shall I look for one?"),
    ("user", "Yes, and ask the carpenter whether the shelves can be made of oak."),
    ("assistant", "The carpenter can make the shelves of oak by the end of the month."),
    ("user", "Good news: we raised the kitchen budget to $4,500, so take the larger oven."),
    (
        "assistant",
        "I ordered the larger oven, and the carpenter starts with the shelves on Monday.",
    ),
)
FAITHFUL = (
    "The user is fitting out a new kitchen with a white oven and oak shelves. The kitchen budget "
    "is $4,500. The carpenter starts with the shelves on Monday; the larger oven is ordered."
)
STALE = FAITHFUL.replace("$4,500", "$3,000")


def messages(*said: tuple[str, str]) -> list[JsonMessage]:
    return [{"role": role, "content": text} for role, text in said]


def records(said: Sequence[JsonMessage]) -> Records:
    return Records((Seq(seq), message) for seq, message in enumerate(said, 1))


def judged(text: str, *, said: Sequence[JsonMessage] = (), **changes: Any) -> Quality:
    """The quality of covering the talk with this text."""
    covered = records(said or messages(*TALK))
    shown = changes.pop("shown", ())
    given: dict[str, Any] = {"previous": [], "tail": [], "kept_turns": 3, "wanted_turns": 3}
    asked = {name: changes.pop(name) for name in ("rules", "older", "threshold") if name in changes}
    given["trust"] = Trust(covered.units, **asked)
    given |= {"turns": 10, "compactions": 0, "weights": QualityWeights(), **changes}
    head = EMPTY.model_copy(update={"summary": text, "watermark": Seq(6), "rules": shown})
    return Scorer(covered=covered, **given).score(render_head(head))


def test_a_faithful_summary_is_trusted() -> None:
    parts = judged(FAITHFUL, rules=[RULE], shown=(RULE,)).parts

    assert (parts["rules"], parts["current"], parts["readable"]) == (1, 1, 1)


@pytest.mark.parametrize("threshold", [0.1, 0.6, 1.0])
def test_what_lost_a_rule_never_passes(threshold: float) -> None:
    whole = judged(FAITHFUL, rules=[RULE], shown=(RULE,), threshold=threshold)
    lost = judged(FAITHFUL, rules=[RULE], threshold=threshold)

    assert lost.parts["rules"] == 0
    assert lost.score < threshold / 2 < whole.score or lost.score < whole.score < threshold / 2
    assert lost.score < threshold


@pytest.mark.parametrize("threshold", [0.1, 0.6, 1.0])
def test_an_old_value_stated_as_current_never_passes(threshold: float) -> None:
    stale = judged(STALE, threshold=threshold)

    assert stale.parts["current"] == 0
    assert stale.score <= threshold / 2


@pytest.mark.parametrize(
    "past",
    [
        "The kitchen budget was $3,000 before.",
        "The kitchen budget is $3,000 (until 5).",
        "The kitchen budget was raised from $3,000 to $4,500.",
        "The kitchen budget is $4,500, no longer $3,000.",
    ],
)
def test_an_old_value_stated_as_past_is_no_fault(past: str) -> None:
    assert judged(f"{FAITHFUL} {past}").parts["current"] == 1


def test_what_the_pool_still_holds_of_earlier_turns_is_known_to_be_replaced() -> None:
    older = records(messages(TALK[0])).units
    newer = messages(*TALK[3:])

    assert judged(STALE, said=newer).parts["current"] == 1
    assert judged(STALE, said=newer, older=older).parts["current"] == 0


def test_the_extractive_summary_states_nothing_replaced_as_current() -> None:
    records = list(enumerate(messages(*TALK), 1))
    for budget in (15, 30, 60, 200):
        text = extract(records, budget_tokens=budget, count=lambda text: len(text.split()))
        assert judged(text).parts["current"] == 1
        assert "$3,000" not in text or ("$3,000 (until 5)" in text and "$4,500" in text)


@pytest.mark.parametrize(
    "text",
    [
        "$3,000 $4,500 Monday 5 6 7",
        "Kitchen, Oven, Carpenter, Monday, $4,500",
        "[tool_use] [tool_result] [tool_use] [tool_result]",
        " ".join(random.Random(1).sample(FAITHFUL.split() * 3, len(FAITHFUL.split()) * 3)),
    ],
    ids=["numbers", "names", "placeholders", "shuffled words"],
)
def test_what_nobody_can_read_never_passes(text: str) -> None:
    quality = judged(text)

    assert quality.parts["readable"] < 0.5
    assert quality.score <= 0.3


@pytest.mark.parametrize("seed", range(12))
def test_a_short_text_whose_words_are_shuffled_never_passes(seed: int) -> None:
    text = " ".join(said for _, said in TALK[3:])
    words = text.split()

    assert judged(text).parts["readable"] == 1
    assert judged(" ".join(random.Random(seed).sample(words, len(words)))).score <= 0.3


@pytest.mark.parametrize(
    "text",
    [
        "Fitting out a kitchen: white oven, oak shelves by the carpenter. Budget now $4,500.",
        "The carpenter starts with oak shelves on Monday. A larger white oven is on its way.",
        "On Monday the shelves begin. The oven, the larger one, is on order; $4,500 may be spent.",
    ],
)
def test_a_free_paraphrase_is_readable(text: str) -> None:
    assert judged(text).parts["readable"] == 1


def test_a_conversation_of_parts_that_are_not_understood_is_not_summarized_well() -> None:
    unknown = [
        {"role": "user", "content": [{"type": "tool_result", "of": "x"}, {"type": "tool_use"}]}
        for _ in range(6)
    ]

    assert judged("The user called some tools.", said=unknown).parts["readable"] < 0.5


def test_a_conversation_of_images_is_readable() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://x.example/1.png"}}
    shown = [{"role": "user", "content": [image]} for _ in range(6)]

    assert judged("The user showed six images.", said=shown).parts["readable"] == 1


def test_other_languages_are_readable() -> None:
    talk = messages(
        ("user", "Das Budget für die neue Küche beträgt 3000 Euro, der Ofen soll weiß sein."),
        ("assistant", "Der Tischler fertigt die Regale aus Eiche bis zum Ende des Monats."),
        ("user", "キッチンの予算は三十万円です。棚は樫の木でお願いします。"),
    )
    for text in ("Budget der Küche: 3000 Euro; Regale aus Eiche vom Tischler.", "予算は三十万円。"):
        assert judged(text, said=talk).parts["readable"] == 1


def test_the_check_is_linear_on_hostile_text() -> None:
    def judge(times: int) -> None:
        said = messages(*(("user", f"The limit is now {n} for us.") for n in range(times)))
        text = "The limit is now 5 for us. " * times
        judged(text, said=said)

    assert_linear(judge, size=200)
    assert least_cpu_s(lambda: judge(800)) < 5
