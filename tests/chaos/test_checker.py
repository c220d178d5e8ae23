"""The checker sees each promise broken, and nothing in a history where none is."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.checker import Expected, Loss, check
from tests.chaos.final import FinalState, Place, SessionState
from tests.chaos.history import Call, History, ReadResult
from tests.chaos.turns import message_of, turn_id
from turnmill.contract.context import JsonMessage
from turnmill_cli.promises import fingerprint

T1, T2, T3 = (turn_id("a", "s", at, "chat") for at in range(3))
PUSHES = (
    Call("a", "push", "s", 1.0, (T1,), ended_s=1.1, seqs=(1,)),
    Call("a", "push", "s", 2.0, (T2,), ended_s=2.1, seqs=(2,)),
    Call("a", "push", "s", 3.0, (T3,), ended_s=3.1, seqs=(3,)),
)


def _tokens(message: JsonMessage) -> int:
    return len(str(message["content"]))


def _place(seq: int, turn: str, where: str = "log") -> Place:
    return Place(where, seq, turn, (message_of(turn),))


STORED = SessionState((_place(1, T1, "archive"), _place(2, T2), _place(3, T3)), 1, 3, "9")


def _read(began_s: float, shown: list[JsonMessage], **fields: int) -> tuple[Call, History]:
    seen = {"version": 1, "watermark": 1, "last_seq": 3} | fields
    keys = tuple(fingerprint(message).hex() for message in shown)
    tokens = 3 + sum(map(_tokens, shown))
    result = ReadResult(
        **seen, tokens=tokens, exact=True, projection=None, system_prompt="", keys=keys
    )
    call = Call("b", "read", "s", began_s, ended_s=began_s + 0.1, read=result)
    return call, History((), dict(zip(keys, shown, strict=True)))


SUMMARY: JsonMessage = {"role": "user", "content": "Summary: one parcel."}
GOOD, MESSAGES = _read(4.0, [SUMMARY, message_of(T2), message_of(T3)])


def _kinds(
    *calls: Call,
    stored: SessionState = STORED,
    left: dict[str, int] | None = None,
    losses: tuple[Loss, ...] = (),
    hard_limit: int = 5_000,
    messages: dict[str, JsonMessage] | None = None,
) -> set[str]:
    history = History(calls, MESSAGES.messages | (messages or {}))
    expected = Expected(hard_limit, losses=losses)
    found = check(history, FinalState({"s": stored}, left or {}), expected, _tokens)
    return {violation.kind for violation in found}


def test_a_history_without_a_fault_has_no_violation() -> None:
    assert _kinds(*PUSHES, GOOD) == set()


def test_an_acknowledged_turn_that_is_nowhere_is_lost() -> None:
    stored = replace(STORED, places=STORED.places[1:])

    assert _kinds(*PUSHES, stored=stored) == {"lost", "gap"}


def test_a_turn_that_nobody_acknowledged_may_be_there_or_not() -> None:
    unknown = replace(PUSHES[2], ended_s=None, seqs=())
    without = replace(STORED, places=STORED.places[:2], last_seq=2)

    assert _kinds(*PUSHES[:2], unknown) == set()
    assert _kinds(*PUSHES[:2], unknown, stored=without) == set()


def test_a_turn_in_two_places_is_doubled() -> None:
    stored = replace(STORED, places=(*STORED.places, _place(4, T3)), last_seq=4)

    assert "doubled" in _kinds(*PUSHES, stored=stored)


def test_two_turns_with_one_seq_are_doubled() -> None:
    stored = replace(STORED, places=(*STORED.places[:2], _place(2, T3)), last_seq=2)

    assert "doubled" in _kinds(*PUSHES, stored=stored)


def test_a_turn_set_aside_is_not_the_session_s() -> None:
    aside = replace(_place(1, T3, "archive"), state="lost")
    stored = replace(STORED, places=(*STORED.places[:2], aside), last_seq=2)

    assert _kinds(*PUSHES[:2], stored=stored) == set()


def test_a_turn_of_another_incarnation_is_not_the_session_s() -> None:
    other = replace(_place(1, T3, "archive"), epoch="8")
    stored = replace(STORED, places=(*STORED.places[:2], other), last_seq=2)

    assert _kinds(*PUSHES[:2], stored=stored) == set()


def test_a_body_that_is_not_what_was_pushed_is_altered() -> None:
    wrong = replace(STORED.places[2], messages=({"role": "user", "content": "!"},))
    stored = replace(STORED, places=(*STORED.places[:2], wrong))

    assert _kinds(*PUSHES, stored=stored) == {"altered"}


def test_a_turn_that_nobody_pushed_is_invented() -> None:
    assert _kinds(*PUSHES[:2]) == {"invented"}


def test_an_order_that_contradicts_time_is_seen() -> None:
    places = (_place(1, T1, "archive"), _place(2, T3), _place(3, T2))
    stored = replace(STORED, places=places)

    assert _kinds(*PUSHES, stored=stored) == {"moved", "out of order"}


def test_a_covered_turn_in_the_log_is_misplaced() -> None:
    assert _kinds(*PUSHES, stored=replace(STORED, watermark=2)) == {"misplaced"}


def test_what_may_be_lost_is_bounded_by_the_fault() -> None:
    stored = replace(STORED, places=STORED.places[:2], last_seq=2)

    assert _kinds(*PUSHES, stored=stored, losses=(Loss(2.5, 3.5),)) == set()
    assert "lost" in _kinds(*PUSHES, stored=stored, losses=(Loss(0.0, 2.5),))


def test_work_left_behind_is_told() -> None:
    assert _kinds(*PUSHES, left={"lease": 1}) == {"left behind"}


def test_a_read_without_a_turn_after_its_watermark_is_incomplete() -> None:
    read, shown = _read(4.0, [SUMMARY, message_of(T3)])

    assert _kinds(*PUSHES, read, messages=shown.messages) == {"read incomplete"}


def test_a_read_over_its_limit_is_seen() -> None:
    assert _kinds(*PUSHES, GOOD, hard_limit=50) == {"read over-limit"}


def test_a_read_that_miscounts_is_seen() -> None:
    assert GOOD.read is not None
    wrong = replace(GOOD, read=replace(GOOD.read, tokens=1))

    assert _kinds(*PUSHES, wrong) == {"read miscounted"}


def test_an_illegal_read_is_seen() -> None:
    orphan = {"role": "tool", "tool_call_id": "c", "content": "17"}
    read, shown = _read(4.0, [orphan, message_of(T2), message_of(T3)])

    assert _kinds(*PUSHES, read, messages=shown.messages) == {"read illegal"}


def test_a_prefix_that_changes_between_commits_is_seen() -> None:
    other: JsonMessage = {"role": "user", "content": "Another summary."}
    read, shown = _read(5.0, [other, message_of(T2), message_of(T3)])

    assert _kinds(*PUSHES, GOOD, read, messages=shown.messages) == {"read unstable"}


def test_a_read_that_does_not_show_what_was_acknowledged_before_went_backwards() -> None:
    read, shown = _read(4.0, [SUMMARY, message_of(T2)], last_seq=2)

    assert _kinds(*PUSHES, read, messages=shown.messages) == {"went backwards"}


def test_a_read_of_an_earlier_version_went_backwards() -> None:
    read, shown = _read(5.0, [*map(message_of, (T1, T2, T3))], version=0, watermark=0)

    assert _kinds(*PUSHES, GOOD, read, messages=shown.messages) == {"went backwards"}


def test_reads_that_overlap_may_see_either_state() -> None:
    early, shown = _read(3.95, [*map(message_of, (T1, T2, T3))], version=0, watermark=0)
    slow = replace(early, ended_s=6.0)

    assert _kinds(*PUSHES, slow, GOOD, messages=shown.messages) == set()


def test_a_turn_that_is_in_log_and_archive_is_one_only_where_redis_went_back() -> None:
    both = replace(STORED, places=(*STORED.places, _place(2, T2, "archive")))
    other = replace(STORED, places=(*STORED.places, _place(2, T1, "archive")))
    back = (Loss(2.5, 2.9),)

    assert _kinds(*PUSHES, GOOD, stored=both, losses=back) == set()
    assert {"misplaced", "doubled"} <= _kinds(*PUSHES, GOOD, stored=both)
    assert {"misplaced", "doubled"} <= _kinds(*PUSHES, GOOD, stored=other, losses=back)
