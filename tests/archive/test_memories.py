"""Which memories turns, summaries and agents leave, and how an index follows them."""

from __future__ import annotations

from tests.archive.records import EPOCH, compaction, turn
from turnmill.contract.names import Namespace, Seq
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, Memory, SessionRef

SHOP = Namespace("shop")
BASE = f"agent-7:{EPOCH}"


def remembered(archive: SqlArchive, namespace: Namespace = SHOP) -> dict[str, str]:
    return {memory.id: memory.text for _, memory in archive.memories(namespace)}


def test_a_turn_leaves_one_memory(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch(turns=(turn(3, {"role": "user", "content": " Red? "}),)))

    expected = Memory(
        id=f"{BASE}:turn:3",
        kind="turn",
        text="Red?",
        speaker="user",
        session=ref.session,
        seq=Seq(3),
        position=1,
        at_ms=3_000,
    )
    assert archive.memories(SHOP) == [(1, expected)]


def test_a_result_is_remembered_with_its_call_and_between_what_is_said(
    archive: SqlArchive, ref: SessionRef
) -> None:
    function = {"name": "get_order", "arguments": '{"id": "#W1"}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "shipped"}
    later = {"role": "tool", "tool_call_id": "d", "content": "paid"}
    calls = [{"id": each, "function": function} for each in "cd"]
    archive.store(ref, EPOCH, Batch(turns=(turn(1), turn(2, call, result))))
    archive.store(
        ref, EPOCH, Batch(turns=(turn(3, {**call, "tool_calls": calls}), turn(4, later), turn(5)))
    )

    found = [memory for _, memory in archive.memories(SHOP)]

    assert [(one.text, one.speaker, one.seq, one.position) for one in found] == [
        ("turn 1", "user", 1, 1),
        ('get_order({"id": "#W1"}): shipped', "tool", 2, 1),
        ("get_order: paid", "tool", 4, 1),
        ("turn 5", "user", 5, 2),
    ]


def test_memories_of_turns_set_aside_go(archive: SqlArchive, ref: SessionRef) -> None:
    events = [{"iteration": 1, "first_seq": seq, "text": f"event {seq}"} for seq in (1, 4)]
    batch = Batch(
        turns=tuple(map(turn, range(1, 6))),
        compactions=(compaction(4, summary="s", events=events),),
    )
    archive.store(ref, EPOCH, batch)

    archive.mark(ref, EPOCH, after_seq=3, through_seq=5, state="rolled-back")

    assert set(remembered(archive)) == {
        *(f"{BASE}:turn:{seq}" for seq in (1, 2, 3)),
        f"{BASE}:event:1",
        f"{BASE}:summary",
    }
    assert archive.memory_generation(SHOP) == 1


def test_a_redelivered_batch_does_not_bring_memories_back(
    archive: SqlArchive, ref: SessionRef
) -> None:
    batch = Batch(turns=(turn(1), turn(2)))
    archive.store(ref, EPOCH, batch)
    archive.mark(ref, EPOCH, after_seq=1, through_seq=2, state="cleared")

    archive.store(ref, EPOCH, batch)

    assert list(remembered(archive)) == [f"{BASE}:turn:1"]


def test_a_rolling_summary_replaces_the_one_before(archive: SqlArchive, ref: SessionRef) -> None:
    first = compaction(1, summary="one", watermark=10)
    second = compaction(2, summary="one and two", watermark=20)

    archive.store(ref, EPOCH, Batch(compactions=(first,)))
    archive.store(ref, EPOCH, Batch(compactions=(second,)))

    expected = Memory(
        id=f"{BASE}:summary",
        kind="summary",
        text="[context-summary] one and two",
        session=ref.session,
        at_ms=20_000,
    )
    ((cursor, found),) = archive.memories(SHOP)
    assert found == expected
    assert cursor > 1, "whoever follows by cursor sees the replacement"
    assert archive.memory_generation(SHOP) == 0, "and need not begin again"


def test_an_agent_can_have_something_remembered(archive: SqlArchive) -> None:
    memory = Memory(id="likes-tea", kind="pushed", text="Ann likes tea", at_ms=5)

    assert archive.remember(SHOP, memory)
    assert not archive.remember(SHOP, memory)

    assert [found for _, found in archive.memories(SHOP)] == [memory]
    assert remembered(archive, Namespace("other")) == {}
