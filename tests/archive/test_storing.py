"""What goes in comes out, once, on SQLite and PostgreSQL."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archive.records import EPOCH, LATER, compaction, image, session, turn
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.names import Namespace, Seq
from turnmill_worker.archive import ManagedView, SqlArchive
from turnmill_worker.ports.values import ArchivedTurn, Batch, Memory, SessionRef

SHOP = Namespace("shop")
DETAIL = {
    "template": "default",
    "source": "templates/default.md",
    "sha256": "ab" * 32,
    "model": "gpt-5-mini",
    "raw_output": "Context summary: \x00 \ud83d done",
    "parsed_output": {"summary": "done"},
    "input": "the whole conversation",
    "sections": ["latest", "runs"],
    "budget": {"limit": 900, "used": 512},
}


def test_an_unknown_session_has_nothing(archive: SqlArchive, ref: SessionRef) -> None:
    assert archive.turns(ref) == []
    assert archive.compactions(ref) == []
    assert archive.views(ref) == []
    assert archive.context(ref, version=1) is None
    assert archive.sessions(ref.namespace) == []
    assert archive.memories(ref.namespace) == []
    assert archive.memory_generation(ref.namespace) == 0


def test_a_batch_is_read_back_as_it_was(archive: SqlArchive, ref: SessionRef) -> None:
    red, blue = image(b"red"), image(b"\x00blue")
    shown = turn(2, blobs=(red.sha256, blue.sha256, red.sha256))
    batch = Batch(
        turns=(turn(1), shown, turn(3, state="rolled-back")),
        compactions=(compaction(1, summary="one"), compaction(2, detail=DETAIL)),
        blobs=(red, blue),
    )

    archive.store(ref, EPOCH, batch)

    assert tuple(archive.turns(ref)) == batch.turns
    assert tuple(archive.compactions(ref)) == batch.compactions
    assert archive.blobs(SHOP, [red.sha256, blue.sha256, "absent"]) == {
        red.sha256: red,
        blue.sha256: blue,
    }


def test_an_empty_batch_leaves_no_trace(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch())

    assert archive.sessions(SHOP) == []


def test_storing_twice_changes_nothing(archive: SqlArchive, ref: SessionRef) -> None:
    red = image(b"red")
    batch = Batch(
        turns=(turn(1), turn(2, blobs=(red.sha256,))),
        compactions=(compaction(1, summary="so far", detail=DETAIL),),
        blobs=(red,),
    )
    archive.store(ref, EPOCH, batch)
    before = (archive.left(ref), archive.sessions(SHOP), archive.memories(SHOP))

    archive.store(ref, EPOCH, batch)

    assert (archive.left(ref), archive.sessions(SHOP), archive.memories(SHOP)) == before


def test_overlapping_batches_add_only_what_is_new(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch(turns=tuple(map(turn, range(1, 6)))))
    archive.store(ref, EPOCH, Batch(turns=tuple(map(turn, range(4, 9)))))

    assert [one.seq for one in archive.turns(ref)] == list(range(1, 9))
    assert archive.sessions(SHOP) == [("agent-7", 8, 8_000)]


def test_a_large_batch_is_stored_whole(archive: SqlArchive, ref: SessionRef) -> None:
    batch = Batch(turns=tuple(map(turn, range(1, 5_001))))

    archive.store(ref, EPOCH, batch)

    assert tuple(archive.turns(ref)) == batch.turns
    assert archive.sessions(SHOP)[0].turns == 5_000


def test_a_range_of_turns_is_read(archive: SqlArchive, ref: SessionRef) -> None:
    red = image(b"red")
    turns = [turn(seq, blobs=(red.sha256,)) for seq in range(1, 9)]
    archive.store(ref, EPOCH, Batch(turns=tuple(turns), blobs=(red,)))

    assert archive.turns(ref, first_seq=3, last_seq=5) == turns[2:5]


def test_incarnations_of_a_session_are_apart(archive: SqlArchive, ref: SessionRef) -> None:
    old, new = turn(1, {"role": "user", "content": "old"}), turn(1)
    archive.store(ref, LATER, Batch(turns=(new,), compactions=(compaction(1, summary="new"),)))
    archive.store(ref, EPOCH, Batch(turns=(old,), compactions=(compaction(1, summary="old"),)))

    assert archive.turns(ref) == [new]
    assert archive.turns(ref, epoch=EPOCH) == [old]
    assert archive.context(ref, version=1) == compaction(1, summary="new")
    assert archive.context(ref, version=1, epoch=EPOCH) == compaction(1, summary="old")


def test_the_newest_incarnation_is_found_by_number(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, "9", Batch(turns=(turn(1),)))
    archive.store(ref, "10", Batch(turns=(turn(1), turn(2))))

    assert len(archive.turns(ref)) == 2


def test_a_context_is_found_by_its_version(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch(compactions=tuple(map(compaction, (1, 2, 3)))))

    assert archive.context(ref, version=2) == compaction(2)
    assert archive.context(ref, version=4) is None


def test_a_managed_view_can_be_asked_for_by_its_columns(
    archive: SqlArchive, ref: SessionRef
) -> None:
    archive.store(ref, EPOCH, Batch(compactions=(compaction(1), compaction(2, detail=DETAIL))))

    assert archive.views(ref) == [
        ManagedView(
            epoch=EPOCH,
            version=compaction(2).version,
            at_ms=20_000,
            template="default",
            source="templates/default.md",
            sha256="ab" * 32,
            model="gpt-5-mini",
            input="the whole conversation",
            raw_output="Context summary: \x00 \ud83d done",
            parsed_output=b'{"summary":"done"}',
            sections=("latest", "runs"),
            budget=b'{"limit":900,"used":512}',
        )
    ]


def test_a_damaged_detail_does_not_stop_a_batch(archive: SqlArchive, ref: SessionRef) -> None:
    good = compaction(1)
    for version, detail in enumerate((b"{not json", b"[1]"), start=2):
        broken = type(good)(
            version=type(good.version)(version), at_ms=1, record=b"{}", context=b"]", detail=detail
        )
        archive.store(ref, EPOCH, Batch(compactions=(broken,)))

    assert [one.detail for one in archive.compactions(ref)] == [b"{not json", b"[1]"]
    assert archive.views(ref) == []


def test_sessions_are_listed_newest_first_and_by_namespace(archive: SqlArchive) -> None:
    for name, at_ms in (("a", 20), ("b", 30), ("c", 10)):
        archive.store(session(name), EPOCH, Batch(turns=(turn(1, at_ms=at_ms),)))
    archive.store(session("d", "other"), EPOCH, Batch(turns=(turn(1),)))

    assert archive.sessions(SHOP, most=2) == [("b", 1, 30), ("a", 1, 20)]


def test_a_turn_that_comes_late_does_not_make_a_session_look_older(
    archive: SqlArchive, ref: SessionRef
) -> None:
    archive.store(ref, EPOCH, Batch(turns=(turn(2),)))
    archive.store(ref, EPOCH, Batch(turns=(turn(1),)))

    assert archive.sessions(SHOP) == [("agent-7", 2, 2_000)]


def test_turns_set_aside_are_kept_and_marked(archive: SqlArchive, ref: SessionRef) -> None:
    archive.store(ref, EPOCH, Batch(turns=tuple(map(turn, range(1, 6)))))

    assert archive.mark(ref, EPOCH, after_seq=3, through_seq=5, state="rolled-back") == 2
    assert archive.mark(ref, EPOCH, after_seq=0, through_seq=5, state="cleared") == 3

    states = [one.state for one in archive.turns(ref)]
    assert states == ["cleared"] * 3 + ["rolled-back"] * 2


ANY_TEXT = st.text(st.characters(codec=None)) | st.sampled_from(
    ["\x00", "\ud800", "a\udfffb", "\U0001f600", "\u2028", "', ''); DROP TABLE turns; --"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=ANY_JSON, text=ANY_TEXT, turn_id=ANY_TEXT, raw=st.binary())
def test_whatever_python_can_hold_is_read_back(
    archive: SqlArchive, content: object, text: str, turn_id: str, raw: bytes
) -> None:
    ref = session(f"s{abs(hash((repr(content), text, turn_id, raw)))}")
    said = [{"role": "user", "content": text, "name": text}, {"role": "assistant", "x": content}]
    stored = ArchivedTurn(
        seq=Seq(1),
        messages=encode_json(said),
        turn_id=turn_id,
        fields=raw,
        at_ms=1,
        tokens=None,
    )
    detail = {"template": text, "raw_output": text, "input": text, "parsed_output": content}
    commit = compaction(1, detail=detail, summary=text, events=content)
    memory = Memory(id=f"{ref.session}:{text}", kind="pushed", text=text, speaker=text)

    archive.store(ref, EPOCH, Batch(turns=(stored,), compactions=(commit,)))
    archive.remember(SHOP, memory)

    assert archive.turns(ref) == [stored]
    assert json.loads(archive.turns(ref)[0].messages) == said
    assert archive.compactions(ref) == [commit]
    (view,) = archive.views(ref)
    assert (view.raw_output, view.input) == (text, text)
    assert decode_json(view.parsed_output) == content
    assert memory in [found for _, found in archive.memories(SHOP, most=100_000)]
