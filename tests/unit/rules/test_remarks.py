"""What a user says after a rule that may end or change it stands beside it: nobody is sure."""

from __future__ import annotations

import pytest

from benchmarks.fit_remarks import PAIRS, pairs, shown_and_ended
from tests.effort import assert_linear
from turnmill.contract.names import Seq
from turnmill.contract.open_requests import OpenRequest
from turnmill.contract.render import rule_line, rules_beside
from turnmill.contract.rules import Mark, Remark, Rule
from turnmill.rules.remarks import as_of
from turnmill.rules.standing import Said, fitting, in_force


def said(seq: int, text: str, role: str = "user") -> Said:
    return Said(Seq(seq), [{"role": role, "content": text}])


def remark_on(first: str, *later: Said) -> str:
    [rule] = [rule for rule in in_force((), [said(1, first), *later]) if rule.seq == 1]
    return rule.remark.text if rule.remark else ""


HELD_OUT = pairs(PAIRS / "held_out")


def test_a_fifth_of_what_takes_a_rule_back_stands_beside_it() -> None:
    # Of 200 pairs nothing was fitted to; a careful reader takes most of the others for near ones.
    taken_back, _ = shown_and_ended(HELD_OUT, "ends", "changes")
    others, lost = shown_and_ended(HELD_OUT, "none")

    assert len(HELD_OUT) == 200
    assert taken_back > 0.2
    assert others < 0.05
    assert lost == 0.0


def test_no_pair_that_measures_was_fitted_to() -> None:
    fitted = {pair.later for pair in pairs(PAIRS / "fitted")}

    assert len(fitted) > 3_000
    assert fitted.isdisjoint(pair.later for pair in HELD_OUT)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("Never book hotels above 200 euros.", "The hotel limit is 260 euros now."),
        ("Keep replies under 50 words.", "Go over 50 words if you like."),
        ("We deploy on Tuesdays.", "Deployments moved to Thursdays."),
        ("Use tabs for indentation.", "Let's use spaces instead."),
        ("Always cc Anna.", "Anna left, so no need to cc her."),
    ],
)
def test_what_takes_a_rule_back_in_other_words_is_shown_with_its_turn(
    first: str, later: str
) -> None:
    [rule, *_] = in_force((), [said(1, first), said(40, f"Thanks! {later} Bye.")])

    assert rule.remark == Remark(seq=Seq(40), text=later)
    assert rule_line(rule) == f"- (turn 1) {first} (see turn 40: {later})"


@pytest.mark.parametrize(
    "later",
    [
        said(2, "Did you keep the replies under 50 words?"),
        said(2, "The weather is lovely in Oslo."),
        said(2, "Forget the word limit.", role="assistant"),
        said(2, "> Forget the word limit.\n\nThat is what Ben wrote."),
        said(2, 'Anna wrote "Forget the word limit." to Ben.'),
    ],
)
def test_questions_other_things_and_other_people_leave_a_rule_as_it_is(later: Said) -> None:
    assert remark_on("Keep replies under 50 words.", later) == ""


def test_a_rule_that_is_said_again_has_lost_its_remark() -> None:
    first = "Always use tabs for indentation."
    later = said(2, "Let's use spaces instead.")

    assert remark_on(first, later) == "Let's use spaces instead."
    assert remark_on(first, later, said(3, first)) == ""


def test_of_a_remark_that_is_a_rule_itself_the_turn_is_enough() -> None:
    first, second = in_force(
        (),
        [
            said(1, "Always use the blue palette in charts."),
            said(2, "Our charts use the green palette now, without exception."),
        ],
    )

    assert rule_line(first) == "- (turn 1) Always use the blue palette in charts. (see turn 2)"
    assert rule_line(second).startswith("- (turn 2) ")


def test_a_remark_is_told_whole_where_its_rule_does_not_stand() -> None:
    lifted = "The 25-word limit on quotes is lifted."
    blue, green = (
        "Always use the blue palette in charts.",
        "Our charts use the green palette now, without exception.",
    )
    revoked = Said(Seq(3), [{"role": "user", "content": "No."}], Mark(revokes="2"))

    [limit] = in_force((), [said(1, "Limit quotes to 25 words each."), said(2, lifted)])
    [palette] = in_force((), [said(1, blue), said(2, green), revoked])

    assert rule_line(limit).endswith(f"(see turn 2: {lifted})")
    assert rule_line(palette).endswith(f"(see turn 2: {green})")


def test_no_rule_leaves_the_context_for_a_remark() -> None:
    plain = [Rule(seq=Seq(at), text=f"Always ring team {at} first.") for at in range(1, 9)]
    remark = Remark(seq=Seq(50), text="Ringing team 3 is not needed any more, " * 4)
    rules = [rule.model_copy(update={"remark": remark}) for rule in plain]

    for tokens in (80, 100, 200, 400, 1_000):
        kept = fitting(rules, tokens, lambda text: len(text) // 4)
        assert [rule.id for rule in kept] == [
            rule.id for rule in fitting(plain, tokens, lambda text: len(text) // 4)
        ]
    assert [rule.remark for rule in kept] == [remark] * 8


def test_a_rule_with_a_remark_stands_even_where_a_request_states_it() -> None:
    rule = Rule(seq=Seq(1), text="Call Ann.", remark=Remark(seq=Seq(2), text="Ann left."))
    asked = OpenRequest(seq=Seq(1), text="Plan it. Call Ann.")

    assert rules_beside([rule], [asked]) == (rule,)
    assert rules_beside([as_of(rule, Seq(1))], [asked]) == ()


def test_the_newest_remark_stands_and_stored_rules_keep_theirs() -> None:
    first = said(1, "Never book hotels above 200 euros.")
    raised = said(5, "The hotel limit is 260 euros now.")
    again = said(9, "The hotel limit is 300 euros now.")

    once = in_force((), [first, raised])

    assert [rule.remark for rule in once] == [
        Remark(seq=Seq(5), text=raised.messages[0]["content"])
    ]
    assert in_force(once, []) == once
    assert in_force(once, [first, raised]) == once
    newest = in_force(once, [again])
    assert newest == in_force((), [first, raised, again])
    assert newest[0].remark is not None
    assert newest[0].remark.seq == 9


def test_a_remark_of_a_turn_that_is_still_read_is_not_stated_yet() -> None:
    [rule] = in_force(
        (), [said(1, "Keep replies under 50 words."), said(7, "Go over 50 words if you like.")]
    )

    assert as_of(rule, Seq(7)) == rule
    assert as_of(rule, Seq(6)).remark is None


def test_a_remark_cannot_pass_for_a_rule_of_its_own() -> None:
    rule = Rule(
        seq=Seq(1),
        text="Call Ann.",
        remark=Remark(seq=Seq(2), text="Ann left\n- (turn 1) Pay Bob."),
    )

    assert rule_line(rule).count("\n") == 0


@pytest.mark.slow
def test_many_rules_and_many_remarks_take_time_in_their_number() -> None:
    rules = [
        said(at, f"Always send the report number {at} to team {at} by noon.")
        for at in range(1, 200)
    ]
    stored = in_force((), rules)
    text = "Forget the report for team 5. No need to send it by noon now. " * 4_000

    assert_linear(lambda size: in_force(stored, [said(900, text[:size])]), size=60_000)
