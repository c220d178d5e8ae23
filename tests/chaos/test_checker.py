"""The checker sees each promise broken, and nothing in a history where none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.agents import Call, History, ReadResult, message_of, turn_id
from tests.chaos.bugs import BUGS, Bug, changed
from tests.chaos.checker import Expected, FinalState, Loss, Place, SessionState, check
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


def _stored(*places: Place, last_seq: int = 3, watermark: int = 1) -> SessionState:
    return replace(STORED, places=places, last_seq=last_seq, watermark=watermark)


ARCHIVED, SECOND, THIRD = STORED.places
TWO = _stored(ARCHIVED, SECOND, last_seq=2)
UNKNOWN = (*PUSHES[:2], replace(PUSHES[2], ended_s=None, seqs=()))
BACK = (Loss(2.5, 2.9),)
AGAIN = _stored(*STORED.places, _place(4, T3), last_seq=4)
SWAPPED = _stored(ARCHIVED, _place(2, T3), _place(3, T2))
ALTERED = _stored(ARCHIVED, SECOND, replace(THIRD, messages=(SUMMARY,)))
TWICE = _stored(*STORED.places, _place(2, T2, "archive"))
OTHERWISE = _stored(*STORED.places, _place(2, T1, "archive"))
ASIDE = _stored(ARCHIVED, SECOND, replace(_place(1, T3, "archive"), state="lost"), last_seq=2)
CASES = {
    "no fault": ((*PUSHES, GOOD), STORED, (), ""),
    "lost": (PUSHES, _stored(SECOND, THIRD), (), "lost, gap"),
    "unknown, and there": (UNKNOWN, STORED, (), ""),
    "unknown, and not there": (UNKNOWN, TWO, (), ""),
    "a turn twice": (PUSHES, AGAIN, (), "doubled, moved"),
    "invented": (PUSHES[:2], STORED, (), "invented"),
    "order": (PUSHES, SWAPPED, (), "moved, out of order"),
    "altered": (PUSHES, ALTERED, (), "altered"),
    "covered in the log": (PUSHES, replace(STORED, watermark=2), (), "misplaced"),
    "lost as it may be": (PUSHES, TWO, (Loss(2.5, 3.5),), ""),
    "lost beyond that": (PUSHES, TWO, (Loss(0.0, 2.5),), "lost"),
    "in two places, as it went back": ((*PUSHES, GOOD), TWICE, BACK, ""),
    "in two places": ((*PUSHES, GOOD), TWICE, (), "misplaced, doubled"),
    "another there": (PUSHES, OTHERWISE, BACK, "misplaced, doubled, moved, out of order"),
    "set aside": (PUSHES[:2], ASIDE, (), ""),
}


@pytest.mark.parametrize(("calls", "stored", "losses", "kinds"), CASES.values(), ids=CASES)
def test_of_turns_it_sees_what_is_wrong_and_nothing_else(
    calls: tuple[Call, ...], stored: SessionState, losses: tuple[Loss, ...], kinds: str
) -> None:
    assert _kinds(*calls, stored=stored, losses=losses) == {*filter(None, kinds.split(", "))}


def test_work_left_behind_a_limit_and_a_wrong_count_are_told() -> None:
    assert GOOD.read is not None
    wrong = replace(GOOD, read=replace(GOOD.read, tokens=1))

    assert _kinds(*PUSHES, left={"lease": 1}) == {"left behind"}
    assert _kinds(*PUSHES, GOOD, hard_limit=50) == {"read over-limit"}
    assert _kinds(*PUSHES, wrong) == {"read miscounted"}


ORPHAN: JsonMessage = {"role": "tool", "tool_call_id": "c", "content": "17"}
OTHER: JsonMessage = {"role": "user", "content": "Another summary."}
WHOLE = [*map(message_of, (T1, T2, T3))]
EARLIER = {"version": 0, "watermark": 0}


@pytest.mark.parametrize(
    ("began_s", "shown", "fields", "kinds"),
    [
        pytest.param(4.0, [SUMMARY, WHOLE[2]], {}, {"read incomplete"}, id="incomplete"),
        pytest.param(4.0, [ORPHAN, *WHOLE[1:]], {}, {"read illegal"}, id="illegal"),
        pytest.param(4.0, [SUMMARY, WHOLE[1]], {"last_seq": 2}, {"went backwards"}, id="behind"),
        pytest.param(5.0, [OTHER, *WHOLE[1:]], {}, {"read unstable"}, id="another prefix"),
        pytest.param(5.0, WHOLE, EARLIER, {"went backwards"}, id="an earlier version"),
    ],
)
def test_of_reads_it_sees_what_is_wrong(
    began_s: float, shown: list[JsonMessage], fields: dict[str, int], kinds: set[str]
) -> None:
    read, history = _read(began_s, shown, **fields)
    before = (GOOD,) if began_s > 4.0 else ()

    assert _kinds(*PUSHES, *before, read, messages=history.messages) == kinds


def test_reads_that_overlap_may_see_either_state() -> None:
    early, shown = _read(3.95, WHOLE, **EARLIER)
    slow = replace(early, ended_s=6.0)

    assert _kinds(*PUSHES, slow, GOOD, messages=shown.messages) == set()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_that_chaos_must_find_can_still_be_planted(bug: Bug) -> None:
    assert changed(bug)
