from __future__ import annotations

from dataclasses import replace

import pytest

from turnmill import Context, Receipt
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.render import receipt_message
from turnmill_cli.promises import (
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


RECEIPT = Receipt(by="projection", first_seq=1, last_seq=3, turns=3, tokens=9)
TOO_FEW = RECEIPT.model_copy(update={"last_seq": 2, "turns": 2})
NEWEST = Receipt(by="projection", first_seq=4, last_seq=4, turns=1, tokens=9)
OF_RESULT = Receipt(by="projection", first_seq=3, last_seq=3, turns=1, tokens=9)
OF_CALL = Receipt(by="projection", first_seq=2, last_seq=3, turns=2, tokens=9)
LATE = [SYSTEM, receipt_message(RECEIPT), *PUSHED[3:]]
CALLER = {"role": "assistant", "content": None}
THINNED = [SYSTEM, receipt_message(OF_CALL), PUSHED[0], CALLER, PUSHED[3]]
SILENT = [SYSTEM, receipt_message(OF_RESULT), PUSHED[0], CALLER, PUSHED[3]]
CASES: list[tuple[str, Context, set[str]]] = [
    ("all is there", context(WHOLE), set()),
    (
        "a call without its result",
        context([SYSTEM, PUSHED[0], *PUSHED[2:]]),
        {"illegal", "incomplete"},
    ),
    ("under the watermark", context([SYSTEM, SUMMARY, *PUSHED[3:]], version=1, watermark=3), set()),
    ("missing", context([SYSTEM, SUMMARY, *PUSHED[3:]], version=1), {"incomplete"}),
    ("named by a receipt", context(LATE, exact=False, projection=RECEIPT), set()),
    ("silent", context([SYSTEM, *PUSHED[3:]], exact=False, projection=RECEIPT), {"incomplete"}),
    ("too few named", context(LATE, exact=False, projection=TOO_FEW), {"incomplete"}),
    ("twice", context([SYSTEM, PUSHED[0], *PUSHED]), {"incomplete"}),
    ("the system prompt is missing", context(PUSHED), {"incomplete"}),
    ("behind the newest push", replace(context(WHOLE), last_seq=Seq(3)), {"incomplete"}),
    ("a call went with its result", context(THINNED, exact=False, projection=OF_CALL), set()),
    ("the same, and nothing says so", context(THINNED), {"incomplete"}),
    (
        "the same, and only the result is named",
        context(SILENT, exact=False, projection=OF_RESULT),
        {"incomplete"},
    ),
    *(
        (
            f"a result as {text}",
            context([SYSTEM, *PUSHED[:2], {**PUSHED[2], "content": text}, PUSHED[3]]),
            found,
        )
        for text, found in (
            ("xxx[… 495 characters removed …]xx", set[str]()),
            ("xxx[… 495 characters removed …]xxy", {"incomplete"}),
            ("xxx[… 49 characters removed …]xx", {"incomplete"}),
            ("xxx[… 495 characters removed …]\nxx", {"incomplete"}),
            ("xxx [… 497 characters left out]", set[str]()),
            ("xxx [… 49 characters left out]", {"incomplete"}),
            ("xxx […] xx", {"incomplete"}),
            ("xxx\n\n[… 1 line left out]\nxxy", {"incomplete"}),
            ("short", {"incomplete"}),
        )
    ),
]


@pytest.mark.parametrize(("read", "found"), [pytest.param(*row, id=name) for name, *row in CASES])
def test_what_a_context_lacks_is_found(read: Context, found: set[str]) -> None:
    assert kinds(check(read)) == found


LINES = "one\n\n  two\nthree. And more.\n\nfour\nfive\n"


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("one\n  two\n[… 2 lines left out]\nfive", set[str]()),
        ("one\n[… 1 line left out]\nthree. [… 9 characters left out]\nfour\nfive", set[str]()),
        ("one\n[… 1 line left out]\nthree. [… 4 characters left out]\nfour\nfive", {"incomplete"}),
        ("one\n[… 1 line left out]\nthree. And more.\n four\nfive", {"incomplete"}),
        ("one\n  two\n[… 1 line left out]\nfive", {"incomplete"}),
        ("[… 1 line left out]\n  two\nfour\n[… 1 line left out]", {"incomplete"}),
        ("[… 2 lines left out]\nfour\n  two\n[… 1 line left out]", {"incomplete"}),
        ("one\n  two\nthree. […]\nfour\nfive", {"incomplete"}),
        ("one\n  two\nthree. And more.\nfour\nfive", {"incomplete"}),
    ],
)
def test_of_lines_none_but_blank_ones_go_uncounted(shown: str, found: set[str]) -> None:
    told = Transcript()
    told.add(1, {"role": "user", "content": LINES})
    read = replace(context([{"role": "user", "content": shown}]), last_seq=Seq(1))

    assert kinds(check_context(read, told, hard_limit=10_000, count=cache()).faults) == found


BATCH: JsonMessage = {
    "role": "assistant",
    "content": "both",
    "tool_calls": [{**CALL["tool_calls"][0], "id": "c2"}, {**CALL["tool_calls"][0], "id": "c3"}],
}
RESULT: JsonMessage = {"role": "tool", "tool_call_id": "c2", "content": "y" * 500}
WAITING = {**BATCH, "tool_calls": BATCH["tool_calls"][1:]}
ANSWERED = {**BATCH, "tool_calls": BATCH["tool_calls"][:1]}
FIRST = Receipt(by="projection", first_seq=1, last_seq=1, turns=1, tokens=9)
BOTH = Receipt(by="projection", first_seq=1, last_seq=2, turns=2, tokens=9)


@pytest.mark.parametrize(
    ("receipt", "shown", "found"),
    [
        (FIRST, [*PUSHED, BATCH, RESULT], []),
        (FIRST, [*PUSHED[:3], BATCH, RESULT], []),
        (FIRST, [BATCH, RESULT], []),
        (FIRST, [*PUSHED, WAITING], ["seq 2 is missing", "the newest"]),
        (BOTH, [*PUSHED, WAITING], ["the newest"]),
        (BOTH, [WAITING], []),
        (FIRST, [WAITING], ["seq 2 is missing", "the receipt"]),
        (FIRST, [*PUSHED, ANSWERED, RESULT], ["seq 2 is missing", "calls"]),
        (BOTH, [*PUSHED, ANSWERED, RESULT], ["calls"]),
        (BOTH, [], ["the newest", "calls"]),
    ],
)
def test_of_turns_with_several_messages_each_is_there_or_its_turn_named_and_calls_wait(
    receipt: Receipt, shown: list[JsonMessage], found: list[str]
) -> None:
    told = Transcript()
    told.add(1, *PUSHED)
    told.add(2, BATCH, RESULT)
    read = context([receipt_message(receipt), *shown], projection=receipt)
    read = replace(read, last_seq=Seq(2))

    faults = check_context(read, told, hard_limit=10_000, count=cache()).faults

    assert len(faults) == len(found)
    assert all(map(str.startswith, [fault.detail for fault in faults], found))


@pytest.mark.parametrize(("room", "found"), [(60, 0), (300, 2)])
def test_nothing_but_the_receipt_is_left_only_where_what_waits_has_no_room(
    room: int, found: int
) -> None:
    told = Transcript()
    told.add(1, *PUSHED)
    told.add(2, BATCH, RESULT)
    read = replace(context([receipt_message(BOTH)], projection=BOTH), last_seq=Seq(2))

    faults = check_context(read, told, hard_limit=read.tokens + room, count=cache()).faults

    assert len(faults) == found


def test_a_context_over_the_limit_is_found() -> None:
    assert kinds(check(context(WHOLE), hard_limit=500)) == {"over-limit"}


def test_turns_out_of_order_are_found() -> None:
    assert "incomplete" in kinds(check(context([SYSTEM, PUSHED[3], *PUSHED[:3]])))


def test_a_missing_newest_turn_is_found_even_when_a_receipt_names_it() -> None:
    messages = [SYSTEM, receipt_message(NEWEST), *PUSHED[:-1]]
    faults = check(context(messages, exact=False, projection=NEWEST))

    assert [fault.detail for fault in faults] == ["the newest turn is missing"]


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


ALTERED = (1, fingerprint([{"role": "user", "content": "where was it?"}]))


@pytest.mark.parametrize(
    ("pushed", "log", "covered", "watermark", "found"),
    [
        (PUSHED, bodies(*PUSHED[2:]), bodies(*PUSHED[:2]), 2, set()),
        (PUSHED, bodies(*PUSHED[1:]), [], 0, {"lost"}),
        (PUSHED, bodies(*PUSHED[1:]), bodies(*PUSHED[:2]), 2, {"doubled", "misplaced"}),
        (PUSHED[:3], bodies(*PUSHED), [], 0, {"doubled"}),
        (PUSHED, [ALTERED, *bodies(*PUSHED[1:])], [], 0, {"altered"}),
    ],
)
def test_each_turn_is_stored_once_as_pushed_on_its_side_of_the_watermark(
    pushed: list[JsonMessage],
    log: list[tuple[int, bytes]],
    covered: list[tuple[int, bytes]],
    watermark: int,
    found: set[str],
) -> None:
    assert kinds(check_store(dict(bodies(*pushed)), log, covered, watermark=watermark)) == found


def test_a_trajectory_that_tells_every_turn_once_has_no_faults() -> None:
    assert check_trajectory(dict(bodies(*PUSHED)), bodies(*PUSHED)) == []


def test_a_trajectory_that_lacks_doubles_or_changes_a_turn_is_found() -> None:
    pushed, whole = dict(bodies(*PUSHED)), bodies(*PUSHED)

    assert kinds(check_trajectory(pushed, whole[1:])) == {"lost"}
    assert kinds(check_trajectory(pushed, [*whole, whole[0]])) == {"doubled"}
    assert kinds(check_trajectory(pushed, [whole[1], whole[0], *whole[2:]])) == {"doubled"}
    assert kinds(check_trajectory(pushed, [(1, b"other"), *whole[1:]])) == {"altered"}
