"""Messages are read once; summaries and pools of older versions are read as what they tell."""

from __future__ import annotations

from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.marks import is_memories, text_in
from turnmill.contract.names import Seq
from turnmill.contract.render import render_head
from turnmill_worker.reading.passages import ASSISTANT, RESULT, USER
from turnmill_worker.reading.readings import Readings, of_older_pool, of_summary


def user(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def test_a_message_is_read_the_first_time_only() -> None:
    readings = Readings(len)

    [first] = readings.of_turn(Seq(1), [user("The ship S71 lies at pier 4.")])
    [again] = readings.of_turn(Seq(1), [user("The ship S71 lies at pier 4.")])

    assert again is first


def test_memories_are_nobody_s_words_and_a_context_pushed_again_is_no_user_s() -> None:
    memories = {"role": "user", "name": "memories", "content": "Ann likes tea."}
    again = render_head(StoredContext(summary="1 user: Pay it all."))
    assert is_memories(memories)

    read = Readings(len).of_turn(Seq(1), [memories, *again, user("Two teas.")])

    assert [(each.role, each.passages[-1].text) for each in read][-1] == (USER, "Two teas.")
    assert [each.role for each in read[:-1]] == [RESULT]


def test_the_text_of_a_message_is_that_of_its_parts() -> None:
    parts = [{"type": "text", "text": "See"}, {"type": "image_url"}, "odd", {"text": "this."}]

    assert text_in({"content": parts}) == "See\nthis."
    assert text_in({"content": None}) == text_in({}) == ""


def test_a_summary_s_lines_say_who_spoke_when_and_others_are_the_assistant_s() -> None:
    found = of_summary("3 user: Pay INV-7.\n4 fetch: total=20\n\n## Goal\n12 Ann: Hello.", len)

    assert [(each.seq, each.who, each.role) for each in found] == [
        (3, "user", USER),
        (4, "fetch", RESULT),
        (0, "assistant", ASSISTANT),
        (12, "Ann", RESULT),
    ]


def test_a_pool_of_an_older_version_is_read_as_who_said_what() -> None:
    groups = [{"label": "invoice", "texts": ["total=20", "po=7"]}, {"texts": ["paid"]}]
    pool = [{"seq": 4, "source": "result", "name": "fetch", "groups": groups}]

    [found] = of_older_pool(pool, len)

    assert (found.seq, found.who, found.role) == (4, "fetch", RESULT)
    assert [each.text for each in found.passages] == ["invoice total=20 po=7", "paid"]
