"""What is found, in what order, and that it depends on nothing but what is there."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import assert_linear
from turnmill_worker.reading.search import Hit, Index, Said


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
        ("ann", "her address is ann.lee@example.com"),
        ("where is src/app/main.py", "I changed src/app/main.py"),
        ("CAFE\u0301", "we met in the café"),
        ("東京", "来週は東京に行きます"),
        ("我的订单", "请问订单到了吗"),
        ("iPhone15の値段", "新しいiPhone15を買いました"),
        ("서울", "저는 서울에서 살아요"),
    ],
)
def test_a_text_is_found_by_other_forms_of_its_words(question: str, text: str) -> None:
    index = Index([note(text), note("something else entirely"), note("и ещё 別の話")])

    assert ids(index.search(question, 5))[:1] == [text]


def test_an_answer_is_found_by_the_words_of_the_question_before_it() -> None:
    said = [turn(1, "Which breed is your dog?"), turn(2, "A corgi."), turn(7, "Yes.")]

    assert ids(Index(said).search("dog breed", 5)) == ["s:1", "s:2"]


def test_a_text_added_again_takes_its_own_place() -> None:
    index = Index([note("kayak", id="a")])

    index.add([note("kayak", id="a"), note("tent", id="a")])

    assert (len(index), "a" in index) == (1, True)
    assert index.search("kayak", 5) == []
    assert ids(index.search("tent", 5)) == ["a"]
    index.rebuild([note("lake")])
    assert ids(index.search("tent lake", 5)) == ["lake"]


def test_one_session_is_searched_when_it_is_asked_for() -> None:
    others = [turn(at, "red kayak", talk="other") for at in range(2_000)]
    mine = [turn(at, f"a kayak, and much else of every kind {at}") for at in range(3)]
    index = Index([*others, *mine])

    assert sorted(ids(index.search("red kayak", 5, within="s"))) == ["s:0", "s:1", "s:2"]
    assert index.search("red kayak", 5, within="nobody") == []


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["x", "x.", "東", "é", "\u0315\u0300", "@", "1", "?", " ", "a_", "-x", "turn 1 ", "ﷺ"]
)
def test_indexing_and_searching_hostile_text_is_linear(unit: str) -> None:
    def search(length: int) -> None:
        text = (unit * length)[:length]
        Index([note(text), note("kayak")]).search(text, 5)

    assert_linear(search, size=20_000, factor=10)
