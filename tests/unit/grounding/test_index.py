"""The default retriever: what is found, in what order, and at what price."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import assert_linear
from turnmill import contract
from turnmill.contract.names import SessionId
from turnmill_worker.grounding import Found, MemoryIndex, scoring
from turnmill_worker.ports.records import Memory


def note(memory_id: str, text: str, **more: Any) -> Memory:
    return Memory(id=memory_id, kind="pushed", text=text, **more)


def turn(seq: int, text: str, *, session: str = "s", **more: Any) -> Memory:
    name = SessionId(session)
    return Memory(
        id=f"{session}:e:turn:{seq}", kind="turn", text=text, session=name, position=seq, **more
    )


def ids(found: list[Found]) -> list[str]:
    return [each.memory.id for each in found]


def found_by(query: str, *texts: str) -> list[str]:
    index = MemoryIndex(note(text, text) for text in (*texts, "something else entirely"))
    return ids(index.search(query, 5))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("What did she buy?", "She bought a kayak"),
        ("When did they swim?", "We went swimming"),
        ("adopted puppies", "adopting a puppy"),
        ("two children", "her 2 kids, one child"),
        ("status of #W1234567", "order #W1234567 was delivered"),
        ("W1234567", "order #W1234567 was delivered"),
        ("mail ann.lee+x@example.com", "her address is Ann.Lee+x@example.com."),
        ("ann", "her address is ann.lee@example.com"),
        ("where is src/app/main.py", "I changed src/app/main.py"),
        ("user sara_doe_496", "user: sara_doe_496"),
        ("cafe", "we met in the café"),
        ("CAFE\u0301", "we met in the café"),
        ("Ｋｙｏｔｏ", "a trip to Kyoto"),
        ("東京", "来週は東京に行きます"),
        ("猫", "私は猫が好きです"),
        ("กาแฟ", "ฉันชอบดื่มกาแฟทุกเช้า"),
        ("서울", "저는 서울에서 살아요"),
        ("Москва", "мы живём в городе МОСКВА"),
        ("İstanbul", "a week in istanbul"),
    ],
)
def test_a_memory_is_found_by_other_forms_of_its_words(query: str, text: str) -> None:
    assert found_by(query, text) == [text]


@pytest.mark.parametrize("query", ["", "   ", "?!", "who are you", "\x00", "\ud800", "🎉", "xyzzy"])
def test_a_query_without_a_known_term_finds_nothing(query: str) -> None:
    assert found_by(query, "a kayak") == []


def test_an_empty_index_finds_nothing() -> None:
    assert MemoryIndex().search("kayak", 5) == []


@pytest.mark.parametrize("k", [0, -1])
def test_asking_for_nothing_finds_nothing(k: int) -> None:
    assert MemoryIndex([note("a", "kayak")]).search("kayak", k) == []


def test_a_memory_is_found_by_who_said_it_and_by_the_day() -> None:
    said = turn(1, "see you", speaker="Audrey", at_ms=1_680_000_000_000)
    index = MemoryIndex([said, turn(5, "see you", speaker="Andrew", at_ms=1_600_000_000_000)])

    assert ids(index.search("Audrey", 5)) == [said.id]
    assert ids(index.search("28 March 2023", 5)) == [said.id]


@pytest.mark.parametrize("at_ms", [-1, 0, 10**18])
def test_a_memory_without_a_real_date_is_found_all_the_same(at_ms: int) -> None:
    assert len(MemoryIndex([note("a", "kayak", at_ms=at_ms)]).search("kayak", 1)) == 1


def test_an_answer_is_found_by_the_words_of_the_question_before_it() -> None:
    index = MemoryIndex([turn(1, "Which breed is your dog?"), turn(2, "A corgi."), turn(7, "Yes.")])

    assert ids(index.search("dog breed", 5)) == ["s:e:turn:1", "s:e:turn:2"]


@pytest.mark.parametrize(
    "other",
    [
        turn(2, "A corgi.", session="t"),
        turn(9, "A corgi."),
        dataclasses.replace(turn(2, "A corgi."), id="s:later:turn:2"),
        dataclasses.replace(turn(2, "A corgi."), kind="summary"),
    ],
    ids=["another session", "further away", "another incarnation", "a summary"],
)
def test_words_said_elsewhere_do_not_count_as_nearby(other: Memory) -> None:
    index = MemoryIndex([turn(1, "Which breed is your dog?"), other])

    assert ids(index.search("dog breed", 5)) == ["s:e:turn:1"]


def test_a_memory_that_tells_comes_before_one_that_asks() -> None:
    index = MemoryIndex([note("asks", "the kayak is red?"), note("tells", "the kayak is red.")])

    assert ids(index.search("red kayak", 5)) == ["tells", "asks"]


def test_relevance_is_one_when_a_memory_says_the_query_and_nothing_else() -> None:
    fillers = [note(str(n), f"filler{n} text about many other things today") for n in range(50)]
    index = MemoryIndex([*fillers, note("a", "red kayak")])

    best = index.search("red kayak", 1)[0]

    assert best.memory.id == "a"
    assert 0.8 < best.relevance <= 1


def test_a_term_nobody_has_lowers_the_relevance() -> None:
    index = MemoryIndex([note("a", "red kayak"), note("b", "blue tent")])

    [known] = index.search("kayak", 1)
    [partly] = index.search("kayak xyzzy", 1)

    assert partly.relevance < known.relevance / 2


def test_among_equals_the_newest_comes_first_and_then_the_smaller_id() -> None:
    same = [note("c", "kayak", at_ms=1), note("b", "kayak", at_ms=2), note("a", "kayak", at_ms=1)]

    assert ids(MemoryIndex(same).search("kayak", 3)) == ["b", "a", "c"]


def test_a_memory_added_again_takes_its_own_place() -> None:
    index = MemoryIndex([note("a", "kayak")])

    index.add([note("a", "kayak"), note("a", "tent")])

    assert len(index) == 1
    assert "a" in index
    assert index.search("kayak", 5) == []
    assert ids(index.search("tent", 5)) == ["a"]


def test_a_removed_memory_is_not_found_and_no_neighbour_remembers_it() -> None:
    index = MemoryIndex([turn(1, "dog breed"), turn(2, "A corgi."), note("n", "tent")])

    index.remove(["s:e:turn:1", "unknown"])

    assert index.search("dog", 5) == []
    assert "s:e:turn:1" not in index


def test_removing_nearly_everything_keeps_the_rest() -> None:
    index = MemoryIndex(note(str(n), f"kayak{n} trip") for n in range(2_000))

    index.remove(str(n) for n in range(1, 2_000))

    assert ids(index.search("kayak0", 5)) == ["0"]
    assert len(index) == 1


def test_rebuilding_forgets_everything_else() -> None:
    index = MemoryIndex([note("a", "kayak")])

    index.rebuild([note("b", "tent")])

    assert ids(index.search("tent kayak", 5)) == ["b"]


def test_two_turns_claiming_one_place_are_both_found() -> None:
    twin = dataclasses.replace(turn(1, "red tent"), id="s:e:turn:01")
    index = MemoryIndex([turn(1, "red kayak"), twin])

    index.remove(["s:e:turn:01"])
    index.add([twin])

    assert sorted(ids(index.search("red", 5))) == ["s:e:turn:01", "s:e:turn:1"]


SAID = ["dog", "cat", "red", "kayak", "went", "go", "7", "order", "W12", "東京", "café", "?", "the"]
WORDS = st.lists(st.sampled_from(SAID), max_size=8).map(" ".join)
TURNS = st.lists(
    st.builds(
        turn,
        st.integers(1, 12),
        WORDS,
        session=st.sampled_from(["s", "t"]),
        speaker=st.sampled_from(["", "user", "Ann"]),
        at_ms=st.sampled_from([0, 1, 1_680_000_000_000]),
    ),
    max_size=12,
    unique_by=lambda memory: memory.id,
)


def outcome(index: MemoryIndex, query: str, k: int = 4) -> list[tuple[str, float]]:
    return [(found.memory.id, found.relevance) for found in index.search(query, k)]


@given(memories=TURNS, later=st.integers(0, 12), gone=st.integers(0, 12), query=WORDS)
@settings(max_examples=300, deadline=None)
def test_an_index_that_grew_and_shrank_is_the_one_built_at_once(
    memories: list[Memory], later: int, gone: int, query: str
) -> None:
    left = memories[gone:]
    grown = MemoryIndex(memories[:later])
    grown.search(query, 3)
    grown.add(memories[later:])
    grown.remove(memory.id for memory in memories[:gone])

    assert outcome(grown, query) == outcome(MemoryIndex(left), query)
    assert outcome(grown, query) == outcome(MemoryIndex(reversed(left)), query)


@given(memories=TURNS, query=st.one_of(WORDS, st.text()), k=st.integers(1, 15))
@settings(max_examples=300, deadline=None)
def test_relevance_lies_between_0_and_1_and_falls(
    memories: list[Memory], query: str, k: int
) -> None:
    found = MemoryIndex(memories).search(query, k)

    assert len(found) <= k
    assert all(0 < each.relevance <= 1 for each in found)
    assert all(a.relevance >= b.relevance for a, b in pairwise(found))


@given(memories=TURNS, query=WORDS, k=st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_leaving_hopeless_memories_unread_changes_nothing(
    memories: list[Memory], query: str, k: int
) -> None:
    index = MemoryIndex(memories)
    exact = outcome(index, query, k)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_LONG_LIST", 0)
        patch.setattr(scoring, "_LOOKUP", 0)
        pruned = outcome(index, query, k)

    assert pruned == exact


def test_rare_terms_nominate_what_common_ones_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_MOST_READ", 0)
    monkeypatch.setattr(scoring, "_NOMINATED", 5)
    many = [note(str(n), f"red kayak{n % 300} trip lake{n % 7}") for n in range(4_000)]

    found = MemoryIndex(many).search("lake1 lake2 lake3 lake4 kayak10", 10)

    assert len(found) == 10
    assert found[0].memory.text.endswith(("lake1", "lake2", "lake3", "lake4"))
    assert {each.memory.text[:11] for each in found} == {"red kayak10"}


_SCRIPT = """
import sys
from turnmill_worker.grounding import MemoryIndex
from turnmill_worker.ports.records import Memory
texts = ["red kayak at the lake", "the lake, a red tent", "kayak trip #W12", "東京 trip", "red red"]
memories = [Memory(id=str(n), kind="turn", text=t, session="s", position=n, speaker="user")
            for n, t in enumerate(texts * 40)]
found = MemoryIndex(memories).search("red kayak trip lake 東京 user", 60)
print([(f.memory.id, f.relevance) for f in found])
"""


@pytest.mark.slow
def test_results_are_the_same_in_every_process() -> None:
    roots = [str(Path(module.__file__ or "").parents[2]) for module in (scoring, contract)]
    answers = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(roots)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(answers) == 1


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "x.",
        "x'",
        "東",
        "é",
        "\u0315\u0300",
        "\u05b0\u05b1",
        "@",
        "1",
        "?",
        " ",
        "a_",
        "-x",
        "ﷺ",
    ],
)
@pytest.mark.slow
def test_indexing_and_searching_hostile_text_is_linear(unit: str) -> None:
    def search(length: int) -> None:
        text = (unit * length)[:length]
        MemoryIndex([note("a", text), note("b", "kayak")]).search(text, 5)

    assert_linear(search, size=20_000, factor=10)
