"""What is found, in what order, and that it depends on nothing but what is there."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import assert_linear
from turnmill_worker.reading.search import Hit, Index, Said

FILLER = "A sentence about the weather and the garden behind the house. " * 40


def note(text: str, **more: Any) -> Said:
    return Said(**{"id": text, "text": text, **more})


def turn(place: int, text: str, who: str = "user", talk: str = "s", **more: Any) -> Said:
    values = {"id": f"{talk}:{place}", "place": place, "seq": place, "within": talk}
    return Said(**{**values, "text": text, "who": who, "talk": talk, **more})


def ids(hits: list[Hit]) -> list[str]:
    return [hit.said.id for hit in hits]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("adopted puppies", "adopting a puppy"),
        ("status of #W1234567", "order #W1234567 was delivered"),
        ("W1234567", "order #W1234567 was delivered"),
        ("mail ann.lee+x@example.com", "her address is Ann.Lee+x@example.com."),
        ("ann", "her address is ann.lee@example.com"),
        ("the order id", "ORDER_ID=7"),
        ("where is src/app/main.py", "I changed src/app/main.py"),
        ("a kayak", "KAYAK"),
        ("CAFE\u0301", "we met in the café"),
        ("Ｋｙｏｔｏ", "a trip to Kyoto"),
        ("東京", "来週は東京に行きます"),
        ("我的订单", "请问订单到了吗"),
        ("猫", "私は猫が好きです"),
        ("iPhone15の値段", "新しいiPhone15を買いました"),
        ("서울", "저는 서울에서 살아요"),
        ("Москва", "мы живём в городе МОСКВА"),
    ],
)
def test_a_text_is_found_by_other_forms_of_its_words(question: str, text: str) -> None:
    index = Index([note(text), note("something else entirely"), note("и ещё 別の話")])

    assert ids(index.search(question, 5))[:1] == [text]


@pytest.mark.parametrize("question", ["", "   ", "?!", "\x00", "\ud800", "🎉", "xyzzy"])
def test_a_question_that_shares_nothing_finds_nothing(question: str) -> None:
    assert Index([note("a kayak")]).search(question, 5) == Index().search("kayak", 5) == []
    assert Index([note("a kayak")]).search("kayak", 0) == []


def test_a_turn_is_found_by_its_number_its_day_and_who_said_it() -> None:
    said = [turn(at, "see you", who=f"Person{at}", about=f"{at} March 2023") for at in range(20)]
    index = Index([*said, turn(30, "42 parcels, 12 of them late")])

    for question in ("What was said in turn 12?", "12 March", "Person12"):
        assert ids(index.search(question, 5))[0] == "s:12"


def test_an_answer_is_found_by_the_words_of_the_question_before_it() -> None:
    said = [turn(1, "Which breed is your dog?"), turn(2, "A corgi."), turn(7, "Yes.")]

    assert ids(Index(said).search("dog breed", 5)) == ["s:1", "s:2"]


@pytest.mark.parametrize(
    "other",
    [turn(2, "A corgi.", talk="t"), turn(9, "A corgi."), turn(2, "A corgi.")._replace(place=None)],
    ids=["another talk", "further away", "a result"],
)
def test_words_said_elsewhere_do_not_count_as_beside(other: Said) -> None:
    index = Index([turn(1, "Which breed is your dog?"), other])

    assert ids(index.search("dog breed", 5)) == ["s:1"]


def test_a_text_that_tells_comes_before_one_that_asks() -> None:
    index = Index([note("the kayak is red?"), note("the kayak is red.")])

    assert ids(index.search("red kayak", 5)) == ["the kayak is red.", "the kayak is red?"]


def test_words_that_everybody_says_hardly_count() -> None:
    index = Index([note("you and the for of"), note("the rent is 900")])

    assert ids(index.search("What did you pay for the rent?", 1)) == ["the rent is 900"]


def test_relevance_is_one_when_a_text_says_the_question_and_nothing_else() -> None:
    index = Index([*(note(f"filler{n} about other things") for n in range(50)), note("red kayak")])

    [known], [partly] = (index.search(each, 1) for each in ("red kayak", "red kayak xyzzy"))
    assert 0.8 < known.relevance <= 1
    assert partly.relevance < known.relevance


def test_among_equals_the_newest_comes_first_and_then_the_smaller_id() -> None:
    said = [Said(name, "kayak", at_ms=at) for name, at in (("c", 1), ("b", 2), ("a", 1))]

    assert ids(Index(said).search("kayak", 3)) == ["b", "a", "c"]


def test_a_text_added_again_takes_its_own_place() -> None:
    index = Index([note("kayak", id="a")])

    index.add([note("kayak", id="a"), note("tent", id="a")])

    assert (len(index), "a" in index) == (1, True)
    assert index.search("kayak", 5) == []
    assert ids(index.search("tent", 5)) == ["a"]
    index.rebuild([note("lake")])
    assert ids(index.search("tent lake", 5)) == ["lake"]


def test_a_long_text_is_found_by_its_passage() -> None:
    index = Index([turn(1, f"{FILLER}\n\nThe kayak is red.\n\n{FILLER}"), turn(9, "A tent.")])

    [hit] = index.search("kayak", 5)

    assert hit.passage > 0
    index.remove(["s:1"])
    assert index.search("kayak weather", 5) == []


def test_a_users_word_comes_before_what_a_long_answer_makes_of_it() -> None:
    answer = turn(2, f"Your kayak! The kayak is red, a red kayak.\n\n{FILLER}", "assistant")
    said = turn(9, "By the way, my kayak is the red one in the shed")

    assert ids(Index([answer, said]).search("red kayak", 2))[0] == said.id


def test_nobody_counts_less_who_has_a_name() -> None:
    said = [turn(1, "red kayak", "Bob"), turn(9, "red kayak", "Ann"), turn(20, FILLER, "Bob")]

    first, second = Index(said).search("red kayak", 2)

    assert first.relevance == second.relevance


def test_a_question_that_names_somebody_prefers_what_they_said() -> None:
    said = [turn(1, "Ann, is the kayak red", "Bob"), turn(9, "the kayak is not red", "Ann")]

    assert ids(Index(said).search("What did Ann say about the kayak?", 2))[0] == "s:9"


def test_one_session_is_searched_when_it_is_asked_for() -> None:
    others = [turn(at, "red kayak", talk="other") for at in range(2_000)]
    mine = [turn(at, f"a kayak, and much else of every kind {at}") for at in range(3)]
    index = Index([*others, *mine])

    assert sorted(ids(index.search("red kayak", 5, within="s"))) == ["s:0", "s:1", "s:2"]
    assert index.search("red kayak", 5, within="nobody") == []


def test_removing_nearly_everything_keeps_the_rest() -> None:
    index = Index(note(f"kayak{at} trip", id=str(at)) for at in range(2_000))

    index.remove(map(str, range(1, 2_000)))

    assert ids(index.search("kayak0", 5)) == ["0"]
    assert len(index) == 1


WORDS = st.lists(
    st.sampled_from(
        ["dog", "red", "kayak", "the", "go", "7", "W12", "東京", "café", "?", "x" * 790]
    ),
    max_size=8,
).map(" ".join)
TURNS = st.lists(
    st.builds(
        turn,
        st.integers(1, 12),
        WORDS,
        st.sampled_from(["user", "assistant", "Ann"]),
        st.sampled_from("st"),
        about=st.sampled_from(["", "1 March 2023"]),
    ),
    max_size=12,
    unique_by=lambda said: said.id,
)


@given(said=TURNS, later=st.integers(0, 12), gone=st.integers(0, 12), question=WORDS)
@settings(max_examples=200, deadline=None)
def test_an_index_that_grew_and_shrank_is_the_one_built_at_once(
    said: list[Said], later: int, gone: int, question: str
) -> None:
    grown = Index(said[:later])
    grown.search(question, 3)
    grown.add(said[later:])
    grown.remove(each.id for each in said[:gone])

    hits = grown.search(question, 4)

    assert hits == Index(said[gone:]).search(question, 4)
    assert hits == Index(reversed(said[gone:])).search(question, 4)
    assert all(0 < hit.relevance <= 1 for hit in hits)
    assert all(a.relevance >= b.relevance for a, b in pairwise(hits))


_SCRIPT = """
from turnmill_worker.reading.search import Index, Said
texts = ["red kayak at the lake", "the lake, a red tent", "kayak trip #W12", "東京 trip", "red red"]
index = Index(Said(str(n), text, who="Ann", talk="s", place=n) for n, text in enumerate(texts * 40))
print([hit[1:] for hit in index.search("red kayak trip lake 東京 Ann", 60)])
"""


@pytest.mark.slow
def test_results_are_the_same_in_every_process() -> None:
    path = os.pathsep.join(sys.path)
    answers = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    }

    assert len(answers) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["x", "x.", "東", "é", "\u0315\u0300", "@", "1", "?", " ", "a_", "-x", "turn 1 ", "ﷺ"]
)
def test_indexing_and_searching_hostile_text_is_linear(unit: str) -> None:
    def search(length: int) -> None:
        text = (unit * length)[:length]
        Index([note(text), note("kayak")]).search(text, 5)

    assert_linear(search, size=20_000, factor=10)


def test_an_empty_index_and_an_unknown_session_find_nothing() -> None:
    index = Index()

    assert index.search("where is my kayak", 5) == []
    assert index.search("where is my kayak", 5, within="s") == []
    index.add([note("The kayak is red.")])
    assert index.search("kayak", 0) == []
    assert index.search("kayak", 5, within="nobody") == []
