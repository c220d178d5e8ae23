"""The curve of tokens: what is known of a session's tokens, and what is estimated."""

from __future__ import annotations

from tests.cli.visualize.sessions import SYSTEM_TOKENS, commit, drawn, turn
from turnmill.contract.context import Elision
from turnmill.contract.trajectory import Trajectory
from turnmill_cli.visualize.curve import ContextChange, Point, token_curve, turn_outcomes, weights


def levels(trajectory: Trajectory) -> list[tuple[int, int]]:
    return [(point.seq, point.tokens) for point in token_curve(trajectory).points]


def one_compaction() -> Trajectory:
    """Ten turns; the sixth came while turns 1-3 were being summarized."""
    first = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125, at_ms=0)
    return drawn(*(turn(seq, at_ms=0) for seq in range(1, 11)), compactions=(first,))


def test_each_turn_adds_its_tokens_and_a_compaction_is_as_recorded() -> None:
    trajectory = one_compaction()

    assert levels(trajectory)[:9] == [
        *[(seq, SYSTEM_TOKENS + 10 * seq) for seq in range(6)],
        (5, 150),
        (5, 125),
        (6, 135),
    ]
    assert token_curve(trajectory).now == Point(10, 175, exact=True)


def test_turns_pushed_during_a_compaction_are_on_both_sides_of_it() -> None:
    during = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
    late = during.model_copy(update={"at_ms": turn(7).at_ms + 1})
    trajectory = drawn(*map(turn, range(1, 11)), compactions=(late,))

    (change,) = token_curve(trajectory).changes

    assert (change.seq, change.before, change.after) == (7, 170, 145)


def test_without_a_system_prompt_nothing_is_estimated() -> None:
    curve = token_curve(drawn(turn(1), turn(2), system_prompt=""))

    assert curve.exact
    assert curve.now.tokens == 23


def test_a_system_prompt_no_record_counts_is_estimated() -> None:
    assert not token_curve(drawn(turn(1))).exact


def test_a_turn_not_counted_is_estimated_until_the_next_record() -> None:
    first = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
    turns = [turn(seq, tokens=None if seq == 4 else 10) for seq in range(1, 8)]
    curve = token_curve(drawn(*turns, compactions=(first,), system_prompt=""))

    assert [point.seq for point in curve.points if not point.exact] == [4, 5]
    assert curve.now == Point(7, 145, exact=True)


def test_a_shortened_turn_weighs_what_it_did_when_pushed() -> None:
    elision = Elision(seq=4, index=0, message={"role": "user"}, tokens_before=50, tokens_after=8)
    trajectory = drawn(
        *map(turn, range(1, 6)),
        compactions=(
            commit(1, (0, 0), last_seq=5, tokens_before=192, elisions=(elision,), strategy="elide"),
        ),
    )

    assert weights(trajectory)[4].tokens == 52
    assert token_curve(trajectory).points[0].tokens == SYSTEM_TOKENS


def rolled_back() -> Trajectory:
    turns = [turn(seq, state="rolled-back" if seq in (7, 8) else "kept") for seq in range(1, 11)]
    first = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
    second = commit(2, (3, 6), last_seq=8, tokens_before=155, tokens_after=130)
    third = commit(
        3, (6, 3), last_seq=6, tokens_after=135, strategy="rollback", at_ms=turn(8).at_ms + 900
    )
    return drawn(*turns, compactions=(first, second, third))


def test_a_rollback_stands_after_the_turns_it_set_aside() -> None:
    change = token_curve(rolled_back()).changes[-1]

    assert (change.kind, change.seq, change.before, change.after) == ("rollback", 8, 130, 135)


def test_a_rollback_without_a_time_stands_there_too() -> None:
    session = rolled_back()
    timeless = [each.model_copy(update={"at_ms": 0}) for each in session.compactions]

    assert token_curve(session.model_copy(update={"compactions": timeless})).changes[-1].seq == 8


def test_turns_a_rollback_brought_back_are_covered_no_more() -> None:
    session = rolled_back()

    found = turn_outcomes(session, token_curve(session))

    assert found.covered == {1: 1, 2: 1, 3: 1}
    assert found.watermark == 3


def test_a_clear_leaves_the_system_prompt() -> None:
    turns = [turn(seq, state="cleared" if seq < 7 else "kept") for seq in range(1, 9)]
    first = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
    session = drawn(*turns, compactions=(first,))

    curve = token_curve(session)

    assert curve.changes[-1] == ContextChange(
        kind="cleared", seq=6, before=135, after=SYSTEM_TOKENS
    )
    assert curve.now.tokens == 120
    assert turn_outcomes(session, curve).watermark == 6


def test_a_clear_before_a_later_compaction_is_found_by_its_watermark() -> None:
    turns = [turn(seq, state="cleared" if seq < 7 else "kept") for seq in range(1, 13)]
    first = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125)
    third = commit(3, (6, 9), last_seq=11, tokens_before=150, tokens_after=125)
    session = drawn(*turns, compactions=(first, third))

    assert [(change.kind, change.seq) for change in token_curve(session).changes] == [
        ("compaction", 5),
        ("cleared", 6),
        ("compaction", 11),
    ]


def test_an_empty_session_has_one_point() -> None:
    assert token_curve(drawn(system_prompt="")).now == Point(0, 3, exact=True)


def test_a_session_without_its_oldest_turns_is_drawn_from_the_first_there_is() -> None:
    first = commit(1, (0, 53), last_seq=55, tokens_before=800, tokens_after=300)

    curve = token_curve(drawn(*map(turn, range(51, 60)), compactions=(first,)))

    assert curve.points[0].seq == 50
    assert not curve.points[0].exact
    assert curve.now == Point(59, 340, exact=True)


def test_compactions_older_than_the_oldest_turn_stand_before_it() -> None:
    first = commit(1, (0, 20), last_seq=22, tokens_before=300, tokens_after=150)
    curve = token_curve(drawn(turn(51), turn(52), compactions=(first,)))

    assert [point.seq for point in curve.points] == [21, 22, 22, 51, 52]
    assert not curve.now.exact


def test_compactions_are_drawn_when_no_turn_is_left() -> None:
    first = commit(1, (0, 20), last_seq=22, tokens_before=300, tokens_after=150)
    session = drawn(compactions=(first,))

    curve = token_curve(session)

    assert curve.now == Point(22, 150, exact=True)
    assert turn_outcomes(session, curve).stored == first.context


def test_turns_pushed_during_a_compaction_and_not_counted_make_it_an_estimate() -> None:
    during = commit(1, (0, 3), last_seq=5, tokens_before=150, tokens_after=125, at_ms=turn(7).at_ms)
    turns = [turn(seq, tokens=None if seq == 7 else 10) for seq in range(1, 9)]

    (change,) = token_curve(drawn(*turns, compactions=(during,))).changes

    assert not change.before_exact
    assert not change.after_exact
