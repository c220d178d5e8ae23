"""Stored data of a newer version: its fields are kept, and only a higher major is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.compaction.snapshots import snapshot_of
from turnmill import (
    CorruptContext,
    InvalidPolicy,
    NewerFormat,
    Policy,
    StoredContext,
)
from turnmill.contract.formats import FORMAT
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.log_entry import LogEntry
from turnmill.contract.policy import policy_body, stored_policy
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.reading.known import FORMAT as FACTS
from turnmill_worker.store.sessions import decoded_known

RULE = {"seq": 3, "text": "Never ship on Sundays.", "weight": 4}
NEXT = f"{FORMAT.partition('.')[0]}.{int(FORMAT.partition('.')[2]) + 1}"
NEXT_FACTS = f"{FACTS.partition('.')[0]}.{int(FACTS.partition('.')[2]) + 1}"
MAJOR = f"{int(FORMAT.partition('.')[0]) + 1}.0"
RECORD = {
    "session": "s",
    "version": 1,
    "strategy": "rolling",
    "from_watermark": 0,
    "watermark": 9,
    "turns": 9,
    "elided": 0,
    "tokens_before": 900,
    "tokens_after": 90,
}

TURN = {b"messages": b"[]", b"bound": b"1", b"turn_id": b"t"}


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_context_of_a_newer_minor_is_read_and_written_with_all_its_fields() -> None:
    newer = {"version": 2, "rules": [RULE], "mood": {"is": "calm"}, "format": NEXT}

    written = json.loads(StoredContext.parse(body(**newer)).encode())

    assert written == newer


READS: dict[str, Callable[[bytes], object]] = {
    "context": StoredContext.parse,
    "record": lambda stored: Compaction.parse(body(**RECORD, **json.loads(stored))),
    "policy": stored_policy,
    "facts": lambda stored: decoded_known(stored, 9),
    "turn": lambda stored: LogEntry.of((b"1-0", {**TURN, b"fields": stored, b"at": b"1"})),
}


@pytest.mark.parametrize("what", READS)
def test_a_higher_major_is_refused_by_name(what: str) -> None:
    with pytest.raises(NewerFormat, match=rf"format {MAJOR}, and this client is older") as refused:
        READS[what](body(format=MAJOR, said="words"))

    assert "upgrade the clients" in str(refused.value)
    assert "words" not in str(refused.value)


@pytest.mark.parametrize("what", READS)
def test_a_newer_minor_is_read(what: str) -> None:
    READS[what](body(format=NEXT, unheard_of=1))


def test_a_field_that_a_newer_minor_uses_otherwise_is_no_damage() -> None:
    with pytest.raises(NewerFormat):
        StoredContext.parse(body(watermark="9", summary=[], format=NEXT))
    with pytest.raises(CorruptContext):
        StoredContext.parse(body(watermark="9", summary=[]))
    with pytest.raises(NewerFormat):
        decoded_known(body(readings=[{"kind": 1}], format=NEXT_FACTS), 9)


def test_a_stored_policy_is_followed_as_far_as_it_is_known() -> None:
    fields = json.loads(policy_body(Policy(max_tokens=4000)))
    newer = {**fields, "tempo": 3, "strategies": ["dream", "rolling"], "format": NEXT}
    newer["quality_weights"] = {**fields["quality_weights"], "charm": 0.5}

    policy = stored_policy(body(**newer))

    assert policy == Policy(max_tokens=4000, strategies=("dream", "rolling"))


def test_what_a_person_writes_is_read_strictly() -> None:
    with pytest.raises(InvalidPolicy, match="did you mean max_tokens"):
        Policy.from_json(body(max_token=4000))
    with pytest.raises(InvalidPolicy, match="no field 'format'"):
        Policy.from_json(body(format=NEXT))


def test_a_note_of_an_awaited_summary_is_read_by_workers_of_other_releases() -> None:
    made = AwaitedSummary(batch="b", file="f", nonce="n", model="m", digest="d")
    planned = snapshot_of([{"role": "user", "content": "Run it."}], Policy())

    note = made.of(planned).model_dump_json(by_alias=True)

    assert json.loads(note)["settings"] == "1"
    assert AwaitedSummary.model_validate_json(note).revision == "1"
