"""The page: complete, readable without scripts, and bounded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.visualize.browser import dom, requires_chromium
from tests.cli.visualize.sessions import commit, drawn, turn
from tests.image_parts import data_url, png, showing
from turnmill.contract.context import Elision, PinnedTurn, Receipt, StoredContext, SummaryEvent
from turnmill.contract.render import render_head
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize import page


def words(html: str) -> str:
    """What a person reads, on one line."""
    body = html.partition("<body>")[2].partition("<script>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def compacted(**fields: object) -> Trajectory:
    first = commit(
        1,
        (0, 3),
        last_seq=5,
        tokens_before=150,
        tokens_after=125,
        quality=0.83,
        quality_parts={"facts": 0.9, "freshness": 1.0},
        **fields,
    )
    return drawn(*map(turn, range(1, 11)), compactions=(first,))


def test_the_first_sentences_say_what_happened() -> None:
    assert (
        "The agent pushed 10 turns: 100 tokens. turnmill compacted the context once. "
        "The model now reads 175 tokens: a summary of turns 1–3 and 7 turns word for word."
    ) in words(page(compacted()))


def test_a_compaction_says_what_it_removed_and_kept() -> None:
    told = words(page(compacted()))

    assert "v1 · rolling 150 → 125 tokens (−17 %) quality 0.83" in told
    assert "turns 1–3: no longer word for word (3 turns)" in told
    assert "turns 4–5: word for word" in told
    assert "summary 1" in told
    assert "facts of the covered turns that can still be read 0.90" in told


def test_a_compaction_says_who_wrote_it_and_why_no_other_did() -> None:
    failed = ("EndpointRefused", "below-quality")

    told = words(page(compacted(model="extractive", failed=failed)))

    assert "without a model; failed before: EndpointRefused, below-quality" in told


def test_pins_events_receipts_and_shortened_messages_are_listed() -> None:
    pin = PinnedTurn(seq=2, messages=({"role": "user", "content": "the pinned words"},))
    event = SummaryEvent(iteration=4, last_iteration=4, first_seq=1, last_seq=3, text="the event")
    receipt = Receipt(by="window", first_seq=1, last_seq=3, turns=3, tokens=30)
    note = {"role": "user", "content": "the note"}
    elision = Elision(seq=4, index=0, message=note, tokens_before=90, tokens_after=7)
    told = words(
        page(compacted(pins=(pin,), events=(event,), receipts=(receipt,), elisions=(elision,)))
    )

    assert "pinned, word for word: turn 2" in told
    assert "[Iteration 4, turns 1-3, summarized]" in told
    assert "[Turns 1-3 left out to fit: 3 turns, 30 tokens] (by window)" in told
    assert "1 message of later turns shortened, by 83 tokens" in told
    assert "90 → 7 tokens, read now as: user the note" in told


def test_each_turn_says_what_became_of_it() -> None:
    session = compacted()
    turns = [each.model_copy(update={"pinned": each.seq == 2}) for each in session.turns]
    turns[8] = turns[8].model_copy(update={"state": "rolled-back"})
    html = page(session.model_copy(update={"turns": tuple(turns)}))

    def told(seq: int) -> str:
        found = re.search(rf'<article[^>]* id="turn-{seq}".*?</header>', html, re.DOTALL)
        assert found is not None
        return words(f"<body>{found[0]}")

    assert "covered by v1" in told(1)
    assert "pinned: kept word for word" in told(2)
    assert "read word for word now" in told(4)
    assert "rolled back: not part of the conversation" in told(9)


def test_the_context_says_where_each_message_comes_from() -> None:
    session = compacted()
    read = (
        {"role": "system", "content": "Be brief."},
        *render_head(StoredContext(summary="summary 1")),
        {"role": "user", "content": "message 4"},
        {"role": "user", "name": "memories", "content": "Anna likes tea"},
    )

    told = words(page(session.model_copy(update={"context": read})))

    assert "System prompt system Be brief." in told
    assert "Stands for turns 1–3 user [Summary" in told
    assert "Turn 4 user message 4" in told
    assert "Memories given to the agent user memories Anna likes tea" in told


def test_a_session_that_expired_says_so() -> None:
    assert "has expired or could not be read" in words(page(compacted()))


def test_an_empty_session_is_a_page_too() -> None:
    told = words(page(drawn(hard_limit=0, soft_limit=0)))

    assert "No turn has been pushed, or none is left." in told
    assert "limits unknown" in told


def test_turns_that_are_gone_are_counted() -> None:
    told = words(page(drawn(*map(turn, range(51, 60)))))

    assert "50 of 59 turns are in neither Redis nor the archive any more" in told


def test_a_session_of_which_only_compactions_are_left_is_a_page_too() -> None:
    told = words(page(compacted().model_copy(update={"turns": ()})))

    assert "v1 · rolling 150 → 125 tokens" in told
    assert "No turn has been pushed, or none is left." in told


def test_a_session_over_its_limit_says_that_reads_are_cut() -> None:
    session = drawn(*(turn(seq, tokens=100) for seq in range(1, 9)))

    told = words(page(session))

    assert "The context now has about" in told
    assert "over the hard limit, so each read is cut to fit" in told


def test_a_tool_call_and_its_result_are_readable() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": '{"found":["x"]}'}

    told = words(page(drawn(turn(1, messages=(said, result)))))

    assert "calls find {&#34;a&#34;:1}" in told
    assert "tool result of find" in told


def test_an_id_used_again_names_the_newest_call_before_a_result() -> None:
    def called(name: str) -> dict[str, object]:
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": ""}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    told = words(page(drawn(turn(1, messages=(called("one"), result, called("two"), result)))))

    assert told.index("result of one") < told.index("result of two")


def test_an_image_is_carried_once_and_shown_wherever_it_is_read() -> None:
    shown = showing(png(1))
    session = drawn(turn(1, messages=(shown,)), turn(2, messages=(shown,)), context=(shown,))

    html = page(session)

    assert html.count(data_url(png(1))) == 1
    assert html.count('data-same="image-1"') == 2
    assert "640×480 pixels" in html


def test_a_long_text_is_folded_and_complete() -> None:
    text = "word " * 5000 + "the end"

    html = page(drawn(turn(1, text)))

    assert "the end" in html
    assert '<details class="long">' in html
    assert "25,007 characters" in html


class Outline(HTMLParser):
    """Where elements begin, how deep folds are, and which ids there are."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found.get("href")))
        if tag == "img" and not found.get("alt"):
            self.unnamed.append(tag)


def test_every_link_leads_to_a_place_on_the_page_and_every_image_is_named() -> None:
    shown = showing(png(1))
    session = compacted().model_copy(update={"context": (shown,)})
    session = session.model_copy(update={"turns": (*session.turns, turn(11, messages=(shown,)))})
    outline = Outline()

    outline.feed(page(session))

    assert len(outline.ids) == len(set(outline.ids))
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)
    assert not outline.unnamed


def long_session() -> Trajectory:
    turns = [turn(seq, f"message {seq}: " + "some words " * 40) for seq in range(1, 5001)]
    compactions = [
        commit(
            seq // 20,
            (seq - 20, seq),
            last_seq=seq + 5,
            tokens_before=300,
            tokens_after=150,
            summary="what stands for them " * 40,
        )
        for seq in range(20, 4981, 20)
    ]
    return drawn(*turns, compactions=tuple(compactions))


@pytest.mark.slow
def test_thousands_of_turns_are_folded_and_complete() -> None:
    session = long_session()

    html = page(session)

    assert len(html) < 12_000_000
    assert html.count("<article") == 5000
    assert html.count('<details class="card') == 249
    opened = re.sub(r'<details class="fold">.*?</details>\n(?=<|$)', "", html, flags=re.DOTALL)
    assert "Turns 13 to 112 (100 turns, 1,000 tokens)" in html
    assert len(opened) < len(html)


@requires_chromium
@pytest.mark.timeout(150)
@pytest.mark.slow
def test_a_browser_opens_thousands_of_turns_and_a_link_into_a_fold(tmp_path: Path) -> None:
    file = tmp_path / "long.html"
    file.write_text(page(long_session()), encoding="utf-8")

    seen = dom(file, mark="#turn-2500")

    assert seen.count("<article") == 5000
    assert seen.count('<details class="fold" open="">') == 1


def test_after_a_clear_a_summary_stands_for_later_turns_only() -> None:
    turns = [turn(seq, state="cleared" if seq < 4 else "kept") for seq in range(1, 11)]
    second = commit(2, (3, 6), last_seq=8, tokens_before=150, tokens_after=125)

    told = words(page(drawn(*turns, compactions=(second,))))

    assert "a summary of turns 4–6 and 4 turns word for word" in told
    assert "3 cleared" in told
