from __future__ import annotations

from dataclasses import replace

import pytest

from turnmill import Context, Receipt
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.render import receipt_message
from turnmill_cli.replay.promises import (
    CheckedRead,
    Fault,
    TokenCache,
    Transcript,
    check_context,
    check_store,
    check_trajectory,
    fingerprint,
)

CALL: JsonMessage = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
    ],
}
PUSHED: list[JsonMessage] = [
    {"role": "user", "content": "where is it?"},
    CALL,
    {"role": "tool", "tool_call_id": "c1", "content": "x" * 500},
    {"role": "assistant", "content": "over there"},
]
SYSTEM: JsonMessage = {"role": "system", "content": "be brief"}
SUMMARY: JsonMessage = {"role": "user", "content": "[Summary of the conversation so far] …"}


def transcript() -> Transcript:
    made = Transcript("be brief")
    for seq, message in enumerate(PUSHED, 1):
        made.add(seq, message)
    return made


def context(
    messages: list[JsonMessage],
    *,
    watermark: int = 0,
    version: int = 0,
    tokens: int | None = None,
    exact: bool = True,
    projection: Receipt | None = None,
) -> Context:
    return Context(
        messages=messages,
        session=SessionId("s"),
        version=Version(version),
        watermark=Seq(watermark),
        last_seq=Seq(len(PUSHED)),
        tokens=cache().of(messages, [fingerprint(m) for m in messages])
        if tokens is None
        else tokens,
        exact=exact,
        projection=projection,
    )


def cache() -> TokenCache:
    return TokenCache(lambda message: 3 + len(str(message.get("content"))))


def check(
    read: Context, *, hard_limit: int = 10_000, previous: CheckedRead | None = None
) -> tuple[Fault, ...]:
    return check_context(
        read, transcript(), hard_limit=hard_limit, count=cache(), previous=previous
    ).faults


def kinds(faults: tuple[Fault, ...] | list[Fault]) -> set[str]:
    return {fault.kind for fault in faults}


WHOLE = [SYSTEM, *PUSHED]


def test_a_context_that_holds_everything_has_no_faults() -> None:
    assert check(context(WHOLE)) == ()


def test_a_context_over_the_limit_is_found() -> None:
    assert kinds(check(context(WHOLE), hard_limit=500)) == {"over-limit"}


def test_a_broken_pair_is_found() -> None:
    assert "illegal" in kinds(check(context([SYSTEM, PUSHED[0], *PUSHED[2:]])))


def test_a_missing_turn_is_found_unless_it_is_under_the_watermark() -> None:
    kept = [SYSTEM, SUMMARY, *PUSHED[3:]]

    assert kinds(check(context(kept, version=1))) == {"incomplete"}
    assert check(context(kept, version=1, watermark=3)) == ()


def test_a_missing_turn_is_found_unless_the_receipt_names_it() -> None:
    receipt = Receipt(by="projection", first_seq=1, last_seq=3, turns=3, tokens=9)
    kept = [SYSTEM, receipt_message(receipt), *PUSHED[3:]]

    assert check(context(kept, exact=False, projection=receipt)) == ()
    silent = [SYSTEM, *PUSHED[3:]]
    assert kinds(check(context(silent, exact=False, projection=receipt))) == {"incomplete"}
    too_few = receipt.model_copy(update={"last_seq": 2, "turns": 2})
    assert kinds(check(context(kept, exact=False, projection=too_few))) == {"incomplete"}


def test_a_turn_that_is_there_twice_is_found() -> None:
    assert kinds(check(context([SYSTEM, PUSHED[0], *PUSHED]))) == {"incomplete"}


def test_turns_out_of_order_are_found() -> None:
    assert "incomplete" in kinds(check(context([SYSTEM, PUSHED[3], *PUSHED[:3]])))


def test_a_missing_newest_turn_is_found_even_when_a_receipt_names_it() -> None:
    receipt = Receipt(by="projection", first_seq=4, last_seq=4, turns=1, tokens=9)

    messages = [SYSTEM, receipt_message(receipt), *PUSHED[:-1]]
    faults = check(context(messages, exact=False, projection=receipt))

    assert [fault.detail for fault in faults] == ["the newest turn is missing"]


def test_a_missing_system_prompt_is_found() -> None:
    assert kinds(check(context(PUSHED))) == {"incomplete"}


def test_a_context_behind_the_newest_push_is_found() -> None:
    assert kinds(check(replace(context(WHOLE), last_seq=Seq(3)))) == {"incomplete"}


def test_a_result_shortened_with_a_note_is_there_and_a_rewritten_one_is_not() -> None:
    note = "xxx[… 495 characters removed …]xx"
    for text, expected in ((note, set()), (note + "y", {"incomplete"}), ("short", {"incomplete"})):
        result = {**PUSHED[2], "content": text}

        assert kinds(check(context([SYSTEM, *PUSHED[:2], result, PUSHED[3]]))) == expected


def test_a_call_that_is_gone_with_its_result_is_found_unless_a_receipt_names_it() -> None:
    receipt = Receipt(by="projection", first_seq=3, last_seq=3, turns=1, tokens=9)
    caller = {"role": "assistant", "content": None}
    messages = [SYSTEM, receipt_message(receipt), PUSHED[0], caller, PUSHED[3]]

    assert check(context(messages, exact=False, projection=receipt)) == ()
    assert kinds(check(context(messages))) == {"incomplete"}


@pytest.mark.parametrize(("off_by", "exact"), [(-1, True), (1, True), (-1, False)])
def test_a_wrong_token_count_is_found(*, off_by: int, exact: bool) -> None:
    right = context(WHOLE)

    assert kinds(check(replace(right, tokens=right.tokens + off_by, exact=exact))) == {"miscounted"}


def test_an_upper_bound_is_no_wrong_token_count() -> None:
    right = context(WHOLE)

    assert check(replace(right, tokens=right.tokens + 50, exact=False)) == ()


def test_a_prefix_that_changes_without_a_commit_is_found() -> None:
    shown = {**PUSHED[2], "content": "xxx[… 495 characters removed …]xx"}
    changed = [SYSTEM, *PUSHED[:2], shown, PUSHED[3]]
    before = check_context(context(WHOLE), transcript(), hard_limit=10_000, count=cache())

    assert kinds(check(context(changed), previous=before)) == {"unstable"}
    assert check(context(changed, version=1), previous=before) == ()


def bodies(*messages: JsonMessage) -> list[tuple[int, bytes]]:
    return [(PUSHED.index(message) + 1, fingerprint([message])) for message in messages]


def test_turns_stored_once_on_their_side_of_the_watermark_are_conserved() -> None:
    pushed = dict(bodies(*PUSHED))

    assert check_store(pushed, bodies(*PUSHED[2:]), bodies(*PUSHED[:2]), watermark=2) == []


def test_a_lost_turn_is_found() -> None:
    pushed = dict(bodies(*PUSHED))

    assert kinds(check_store(pushed, bodies(*PUSHED[1:]), [], watermark=0)) == {"lost"}


def test_a_doubled_turn_is_found() -> None:
    pushed = dict(bodies(*PUSHED))

    faults = check_store(pushed, bodies(*PUSHED[1:]), bodies(*PUSHED[:2]), watermark=2)

    assert kinds(faults) == {"doubled", "misplaced"}


def test_a_turn_nobody_pushed_is_found() -> None:
    pushed = dict(bodies(*PUSHED[:3]))

    assert kinds(check_store(pushed, bodies(*PUSHED), [], watermark=0)) == {"doubled"}


def test_an_altered_turn_is_found() -> None:
    pushed = dict(bodies(*PUSHED))
    log = [(1, fingerprint([{"role": "user", "content": "where was it?"}])), *bodies(*PUSHED[1:])]

    assert kinds(check_store(pushed, log, [], watermark=0)) == {"altered"}


def test_a_trajectory_that_tells_every_turn_once_has_no_faults() -> None:
    assert check_trajectory(dict(bodies(*PUSHED)), bodies(*PUSHED)) == []


def test_a_trajectory_that_lacks_doubles_or_changes_a_turn_is_found() -> None:
    pushed, whole = dict(bodies(*PUSHED)), bodies(*PUSHED)

    assert kinds(check_trajectory(pushed, whole[1:])) == {"lost"}
    assert kinds(check_trajectory(pushed, [*whole, whole[0]])) == {"doubled"}
    assert kinds(check_trajectory(pushed, [whole[1], whole[0], *whole[2:]])) == {"doubled"}
    assert kinds(check_trajectory(pushed, [(1, b"other"), *whole[1:]])) == {"altered"}
