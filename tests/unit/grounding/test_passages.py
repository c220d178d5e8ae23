"""Long messages are searched passage by passage, and who says something counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import assert_linear
from turnmill.contract.names import SessionId
from turnmill_worker.grounding import Found, MemoryIndex
from turnmill_worker.grounding.passages import LONGEST, excerpt, split
from turnmill_worker.grounding.terms import asks
from turnmill_worker.ports.records import Memory

FILLER = "A sentence about the weather and the garden behind the house. " * 40


def turn(seq: int, text: str, speaker: str = "user", session: str = "s", **more: Any) -> Memory:
    values = {"id": f"{session}:e:turn:{seq}", "kind": "turn", "text": text, "position": seq}
    return Memory(**{**values, "speaker": speaker, "session": SessionId(session), **more})


def ids(found: list[Found]) -> list[str]:
    return [each.memory.id for each in found]


# passages


def test_a_message_that_is_not_long_is_one_passage() -> None:
    assert split("One.\n\nTwo.") == ["One.\n\nTwo."]
    assert split("") == [""]


def test_a_long_message_is_cut_where_a_paragraph_ends() -> None:
    first, second = "a" * 300 + ".", "b" * 700 + "."

    assert split(f"{first}\n\n{second}") == [f"{first}\n\n", second]


@pytest.mark.parametrize("mark", ["\n", ". ", " ", ""])
def test_without_paragraphs_it_is_cut_where_a_line_sentence_or_word_ends(mark: str) -> None:
    found = split(f"word{mark}" * 500)

    assert all(passage.endswith(f"word{mark}") for passage in found)


@given(st.text(alphabet="ab .\n?東", max_size=4_000))
def test_passages_leave_nothing_out_and_are_bounded(text: str) -> None:
    found = split(text)

    assert "".join(found) == text
    assert all(len(passage) <= LONGEST for passage in found)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["x", "\n", ". ", " ", "x\n\n"])
def test_cutting_hostile_text_is_linear(unit: str) -> None:
    assert_linear(lambda n: split((unit * n)[:n]), size=20_000, factor=10)


def test_an_excerpt_says_where_the_text_goes_on() -> None:
    text = f"{'a' * 700}\n\n{'b' * 700}\n\n{'c' * 700}"

    assert excerpt(text, 0) == f"{'a' * 700} …"
    assert excerpt(text, 1) == f"… {'b' * 700} …"
    assert excerpt(text, 2) == f"… {'c' * 700}"
    assert excerpt("short", 0) == "short"


def test_a_long_turn_is_found_by_its_passage_and_quoted_by_it() -> None:
    long = turn(1, f"{FILLER}\n\nThe kayak is red.\n\n{FILLER}")
    index = MemoryIndex([long, turn(5, "A house."), turn(9, "A garden.")])

    [found] = index.search("kayak", 5)

    assert found.memory == long
    assert "The kayak is red." in found.text
    assert len(found.text) <= LONGEST + 4


def test_a_fact_amid_much_else_is_as_relevant_as_in_a_short_message() -> None:
    others = [turn(n, f"filler{n} about other things") for n in range(20, 60, 2)]
    index = MemoryIndex([turn(1, f"{FILLER}\n\nThe kayak is red."), *others])

    [found] = index.search("red kayak", 1)

    assert found.relevance > 0.4


@pytest.mark.parametrize("kind", ["summary", "pushed"])
def test_summaries_and_notes_are_quoted_whole(kind: Any) -> None:
    text = f"{FILLER}\n\nThe kayak is red."

    [found] = MemoryIndex([turn(1, text, kind=kind)]).search("kayak", 5)

    assert found.text == text


def test_a_removed_long_turn_leaves_nothing_behind() -> None:
    long = turn(1, f"{FILLER}\n\nThe kayak is red.")
    index = MemoryIndex([long, turn(5, "A tent.")])

    index.remove([long.id])

    assert index.search("kayak weather", 5) == []
    assert ids(index.search("tent", 5)) == ["s:e:turn:5"]


def test_a_memory_is_found_once_however_many_of_its_passages_match() -> None:
    text = "\n\n".join(f"The kayak of {name}. {'x' * 700}" for name in ("Ann", "Bob", "Eve"))

    found = MemoryIndex([turn(1, text), turn(5, "kayak")]).search("kayak", 5)

    assert sorted(ids(found)) == ["s:e:turn:1", "s:e:turn:5"]


PASSAGES = st.lists(
    st.sampled_from(["kayak red", "tent", "dog?", "trip", "x" * 790]), max_size=6
).map("\n\n".join)


@given(
    texts=st.lists(PASSAGES, max_size=8),
    speakers=st.lists(st.sampled_from(["user", "assistant", "Ann"]), min_size=8, max_size=8),
    gone=st.integers(0, 8),
    query=st.sampled_from(["kayak trip", "red dog tent", "Ann kayak"]),
)
def test_an_index_that_shrank_is_the_one_built_at_once(
    texts: list[str], speakers: list[str], gone: int, query: str
) -> None:
    said = [turn(n, text, speakers[n]) for n, text in enumerate(texts)]
    index = MemoryIndex(said)

    index.remove(memory.id for memory in said[:gone])

    for same in (MemoryIndex(said[gone:]), MemoryIndex(reversed(said[gone:]))):
        assert index.search(query, 4) == same.search(query, 4)


# who says it


def test_a_users_word_comes_before_what_a_long_answer_makes_of_it() -> None:
    answer = turn(2, f"Your kayak! The kayak is red, a red kayak.\n\n{FILLER}", "assistant")
    said = turn(9, "By the way, my kayak is the red one in the shed", "user")
    assert ids(MemoryIndex([answer, said]).search("red kayak", 2))[0] == said.id


def test_an_assistant_that_is_as_brief_as_its_user_weighs_the_same() -> None:
    index = MemoryIndex([turn(1, "red kayak", "assistant"), turn(9, "red kayak", "user")])

    first, second = index.search("red kayak", 2)

    assert first.relevance == second.relevance


def test_nobody_weighs_less_for_a_user_who_talks_at_length() -> None:
    index = MemoryIndex([turn(1, f"kayak {FILLER}", "user"), turn(9, "tent", "assistant")])
    alone = MemoryIndex([turn(1, f"kayak {FILLER}", "user"), turn(9, "tent", "user")])

    for query in ("kayak", "tent"):
        [found], [expected] = index.search(query, 1), alone.search(query, 1)
        assert found.relevance == expected.relevance


def test_what_is_said_nearby_on_all_sides_does_not_outweigh_what_is_said_here() -> None:
    texts = ("Where is order W7?", "W7 is here. W7 is here. W7 is here.", "Where is order W8?")
    index = MemoryIndex(turn(at, text) for at, text in enumerate(texts))

    assert ids(index.search("W7", 3))[-1] == "s:e:turn:2"


def test_people_with_names_weigh_the_same_however_much_they_say() -> None:
    short, long = turn(1, "red kayak", "Ann"), turn(9, "red kayak", "Bob")
    index = MemoryIndex([short, long, turn(20, FILLER, "Bob")])

    first, second = index.search("red kayak", 2)

    assert first.relevance == second.relevance


def test_what_a_long_answer_weighs_depends_on_its_own_session_only() -> None:
    brief = [turn(1, "red kayak", "assistant"), turn(9, "a tent", "user")]
    alone = MemoryIndex(brief).search("red kayak", 1)
    lengthy = [turn(1, FILLER, "assistant", "t"), turn(2, "Thanks.", "user", "t")]

    index = MemoryIndex([*brief, *lengthy])
    index.remove(memory.id for memory in lengthy)

    assert index.search("red kayak", 1) == alone


def test_a_question_that_names_somebody_prefers_what_they_said() -> None:
    ann, bob = turn(1, "Ann, is the kayak red", "Bob"), turn(9, "the kayak is not red", "Ann")
    index = MemoryIndex([ann, bob])

    assert ids(index.search("What did Ann say about the kayak?", 2))[0] == bob.id


# what asks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which breed is your dog?", True),
        ("Hi. Which breed is your dog?", True),
        ("どの犬種ですか？", True),
        ("My dog is a corgi.", False),
        ("I moved the launch from March to the second week of April, is that fine?", False),
        ("I lost my job at the bank this month. You?", False),
        ("", False),
    ],
)
def test_a_text_asks_when_most_of_it_is_the_question(text: str, expected: bool) -> None:  # noqa: FBT001
    assert asks(text) is expected


# one session


def test_one_session_is_searched_when_it_is_asked_for() -> None:
    said = [turn(n, f"red kayak {n}", session=f"s{n % 3}") for n in range(60)]
    index = MemoryIndex([*said, turn(0, "red kayak", kind="pushed", id="n", session="s1")])

    found = index.search("red kayak", 30, session=SessionId("s1"))

    assert {each.memory.session for each in found} == {"s1"}
    assert len(found) == 21
    assert index.search("red kayak", 5, session=SessionId("nobody")) == []


def test_the_best_of_one_session_are_found_behind_better_ones_of_others() -> None:
    others = [turn(n, "red kayak", session="other") for n in range(2_000)]
    mine = [turn(n, f"a kayak, and much else of every kind {n}") for n in range(3)]
    index = MemoryIndex([*others, *mine])

    assert len(index.search("red kayak", 5, session=SessionId("s"))) == 3


def test_a_session_whose_turns_were_removed_is_empty() -> None:
    index = MemoryIndex([turn(1, "red kayak"), turn(2, "a tent", session="t")])

    index.remove(["s:e:turn:1"])

    assert index.search("red kayak", 5, session=SessionId("s")) == []
