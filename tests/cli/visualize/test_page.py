"""The page: its numbers, its curve, and that it is complete."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tests.cli.visualize.sessions import SYSTEM_TOKENS, commit, drawn, turn
from tests.image_parts import data_url, png, showing
from turnmill.contract.context import Elision, OpenRequest, SummaryEvent
from turnmill.contract.names import Seq
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize import page
from turnmill_cli.visualize.page import token_curve

FIRST = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
ROLLED_BACK = commit(3, (6, 3), last_seq=6, tokens_after=135, strategy="rollback")


def session(*, aside: tuple[int, ...] = (), state: str = "rolled-back") -> Trajectory:
    turns = [turn(seq, state=state if seq in aside else "kept") for seq in range(1, 11)]
    return drawn(*turns, compactions=(FIRST,))


def test_each_turn_adds_its_tokens_and_a_compaction_is_as_recorded() -> None:
    curve = token_curve(session())

    before = [(seq, SYSTEM_TOKENS + 10 * seq) for seq in range(6)]
    assert curve.points[:9] == [*before, (5, 150), (5, 125), (6, 135)]
    assert curve.points[-1] == (10, 175)
    assert curve.exact


def test_a_turn_that_was_elided_later_weighs_what_it_did_when_it_was_pushed() -> None:
    short = {"role": "tool", "content": "cut here"}
    elision = Elision(seq=Seq(4), index=0, message=short, tokens_before=50, tokens_after=8)
    elided = commit(1, (0, 0), last_seq=5, tokens_before=192, elisions=(elision,), strategy="elide")
    turns = [turn(seq) for seq in range(1, 6)]

    curve = token_curve(drawn(*turns, compactions=(elided,)))

    assert curve.points[0] == (0, SYSTEM_TOKENS)
    assert curve.points[4] == (4, SYSTEM_TOKENS + 82)
    assert curve.points[6] == (5, 192)


def test_a_rollback_stands_after_what_it_set_aside_and_a_clear_after_the_cleared() -> None:
    back = session(aside=(7, 8)).model_copy(update={"compactions": (FIRST, ROLLED_BACK)})
    cleared = session(aside=tuple(range(1, 7)), state="cleared")

    changes = token_curve(back).changes + token_curve(cleared).changes

    assert [(each.kind, each.seq, each.after) for each in changes] == [
        ("compaction", 5, 125),
        ("rollback", 8, 135),
        ("compaction", 5, 125),
        ("clear", 6, SYSTEM_TOKENS),
    ]


@pytest.mark.parametrize(
    ("trajectory", "now", "exact"),
    [
        (drawn(system_prompt=""), 3, True),
        (drawn(turn(1), turn(2), system_prompt=""), 23, True),
        (drawn(turn(1, tokens=None), system_prompt=""), 15, False),
        (drawn(compactions=(FIRST,)), 125, True),
    ],
)
def test_what_nobody_counted_is_estimated(trajectory: Trajectory, now: int, *, exact: bool) -> None:
    curve = token_curve(trajectory)

    assert (curve.points[-1][1], curve.exact) == (now, exact)
    assert ("≈" in page(trajectory)) is not exact


def test_what_a_compaction_wrote_is_shown() -> None:
    event = SummaryEvent(iteration=1, last_iteration=1, first_seq=1, last_seq=2, text="an event")
    shorter = {"role": "tool", "content": "cut here"}
    elision = Elision(seq=4, index=0, message=shorter, tokens_before=1900, tokens_after=20)
    made = commit(
        1,
        (0, 3),
        tokens_before=150,
        tokens_after=125,
        ledger="a fact",
        rules=(Rule(seq=Seq(12), text="never <by> plane", revised=Seq(20)),),
        requests=(OpenRequest(seq=Seq(3), text="book a table"),),
        events=(event,),
        elisions=(elision,),
        model="gpt-5-mini",
        cost_usd=0.0125,
    )

    html = page(session().model_copy(update={"compactions": (made,)}))

    for told in ("summary 1", "a fact", "an event", "cut here", "1,900 → 20", "$0.0125"):
        assert told in html
    assert "never &lt;by&gt; plane (changed in turn 20)" in html
    assert "Turn 3: book a table" in html


class Outline(HTMLParser):
    """The page's ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.add(str(found["href"]).removeprefix("#"))


def test_every_link_leads_to_a_place_and_an_image_is_carried_once() -> None:
    shown = showing(png(1))
    several = (*session().turns, turn(11, messages=(shown,)))
    outline = Outline()

    html = page(session().model_copy(update={"context": (shown,), "turns": several}))
    outline.feed(html)

    assert len(outline.ids) == len(set(outline.ids))
    assert outline.links <= set(outline.ids)
    assert {"turn-11", "version-1", "image-1"} <= set(outline.ids)
    assert html.count(data_url(png(1))) == 1


def test_thousands_of_turns_are_complete() -> None:
    made = [commit(seq // 20, (seq - 20, seq), last_seq=seq + 5) for seq in range(20, 4981, 20)]
    html = page(drawn(*map(turn, range(1, 5001)), compactions=tuple(made)))

    assert html.count("<article") == 5000
    assert html.count('<details class="card') == 249
