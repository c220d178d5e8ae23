"""What goes in comes out, once, on SQLite and PostgreSQL; agents at once and ciphers too."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.archive.records import EPOCH, LATER, compaction, image, session, turn
from tests.plain_cipher import cipher
from turnmill.contract.codec import decode_json, encode_exactly, sendable
from turnmill.contract.errors import QuotaExceeded
from turnmill.contract.names import Namespace, Seq
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import ArchivedTurn, Batch, Memory, SessionRef

# --- What goes in comes out, once, on SQLite and PostgreSQL.


SHOP = Namespace("shop")


DETAIL = {
    "template": "default",
    "source": "templates/default.md",
    "sha256": "ab" * 32,
    "model": "gpt-5-mini",
    "raw_output": "Context summary: \x00 \ufffd done",
    "parsed_output": {"summary": "done"},
    "input": "the whole conversation",
    "sections": ["latest", "runs"],
    "budget": {"limit": 900, "used": 512},
}


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


def test_incarnations_of_a_session_are_apart(archive: SqlArchive, ref: SessionRef) -> None:
    old, new = turn(1, {"role": "user", "content": "old"}), turn(1)
    archive.store(ref, LATER, Batch(turns=(new,), compactions=(compaction(1, summary="new"),)))
    archive.store(ref, EPOCH, Batch(turns=(old,), compactions=(compaction(1, summary="old"),)))

    assert archive.turns(ref) == [new]
    assert archive.turns(ref, epoch=EPOCH) == [old]
    assert archive.context(ref, version=1) == compaction(1, summary="new")
    assert archive.context(ref, version=1, epoch=EPOCH) == compaction(1, summary="old")


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
    max_examples=50,
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
        messages=encode_exactly(said),
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
    assert (view.raw_output, view.input) == (sendable(text), sendable(text))
    assert decode_json(view.parsed_output) == sendable(content)
    assert memory in [found for _, found in archive.memories(SHOP, most=100_000)]


# --- The quota of memories where many agents push at once.


def test_agents_at_once_have_no_more_remembered_than_they_may(archive: SqlArchive) -> None:
    def remember(name: str) -> bool:
        return archive.remember(SHOP, Memory(id=name, kind="pushed", text=name), most=3)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(remember, f"{at}") for at in range(16)]
    refused = [error for each in asked if (error := each.exception())]

    assert len(refused) == 13
    assert {(type(each), *vars(each).values()) for each in refused} == {
        (QuotaExceeded, "memories", 3, 3, 1.0)
    }
    assert len(archive.memories(SHOP)) == 3
    assert not remember(archive.memories(SHOP)[0][1].id)


# --- What Redis lost can still be read where the archive is encrypted.


def test_a_lost_branch_can_be_decrypted(empty_url: str) -> None:
    ref = session("s")
    told = Batch(turns=(turn(1), turn(2), turn(3)), compactions=(compaction(1),))
    with closing(SqlArchive.open(empty_url, cipher)) as archive:
        archive.store(ref, EPOCH, told)
        tip = archive.tip(ref)
        assert tip
        lost = archive.lose(ref, tip, Batch(), last_seq=1, version=0)

        assert lost
        assert [each.messages for each in archive.turns(ref, epoch=EPOCH)] == [turn(1).messages]
        found = archive.turns(ref, epoch=lost.epoch)
        assert [each.messages for each in found] == [turn(2).messages, turn(3).messages]
        assert archive.compactions(ref, epoch=lost.epoch)[0].context == compaction(1).context
